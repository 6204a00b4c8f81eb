"""Secrets leave a recording, and it still replays: RP-18 and the RD cases from the call to the disk and back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from otel_replay import Diverged, boundary, replay
from otel_replay.exporting import export_bytes, spans_of

from .clients import SHARED
from .conftest import Lab

OWN = Path(__file__).parents[1] / "redaction" / "cases"
folders = pytest.mark.parametrize("folder", [f for f in (OWN, SHARED) if f.is_dir()], ids=lambda f: f.parent.name)
answers: list[Any] = []


@boundary("send", kind="http")
def send(request: Any) -> Any:
    return answers.pop(0)


@boundary("stream", kind="model")
def stream() -> Any:
    yield from answers[0]


def load(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_text(encoding="utf-8"))


def on_disk(lab: Lab) -> str:
    """Return every byte that the run left: the journal before it is sealed, the store, its export."""
    journals = b"".join(path.read_bytes() for path in lab.store.rglob("*") if path.is_file())
    exported = export_bytes(spans_of("run", store=lab.store), "otlp-json")
    sealed = b"".join(path.read_bytes() for path in lab.store.rglob("*") if path.is_file())
    return (journals + exported + sealed).decode("utf-8", "replace")


def gone_and_replayed(lab: Lab, request: Any, response: Any, secrets: list[str]) -> Any:
    """Record one call, find none of `secrets` on disk, and return what the same live call is served."""
    answers[:] = [response]
    lab.record(lambda: send(request))
    text = on_disk(lab)
    for secret in secrets:
        assert secret not in text
    return lab.replay(lambda: send(request))


@folders
def test_rp_18_redaction_does_not_break_replay(lab: Lab, folder: Path) -> None:
    case = load(folder, "rp18_secret_in_body.json")
    handed: list[Any] = []

    def agent(call: Any) -> Callable[[], Any]:
        def run() -> Any:
            send(call)
            token = send({"login": "kari"})["session_token"]
            handed.append(token)
            return send({"args": [token], "again": token})

        return run

    answers[:] = ["ok", case["first_response"], "done"]
    assert lab.record(agent(case["recorded_call"])) == "done"
    assert handed == [case["second_call_uses"]], "recording changes nothing for the agent"
    text = on_disk(lab)
    assert "tok_live_000000000000" not in text
    assert case["second_call_uses"] not in text
    assert lab.replay(agent(case["recorded_call"])) == "done"
    assert handed[1].startswith("[redacted:")
    other = json.loads(json.dumps(case["recorded_call"]).replace("my mail", "my post"))
    with pytest.raises(Diverged, match="my mail.*my post"):
        lab.replay(agent(other))
    changed = json.loads(json.dumps(case["recorded_call"]).replace("tok_live_000000000000", "tok_live_111111111111"))
    # Another token in the same place is the same request: nothing of its value is kept to tell.
    assert lab.replay(agent(changed)) == "done"


@folders
def test_rd_01_secrets_in_json_inside_json_text(lab: Lab, folder: Path) -> None:
    case = load(folder, "rd01_json_in_string.json")
    tree = {"tool_calls": case["tool_calls"]}
    served = gone_and_replayed(lab, tree, tree, case["must_be_gone"])
    arguments = json.loads(served["tool_calls"][0]["function"]["arguments"])
    assert (list(arguments), arguments["page"]) == (["password", "nested", "page"], 3)
    assert json.loads(arguments["nested"])["note"] == "keep me"
    harmless = json.loads(json.dumps(tree).replace("keep me", "keep you"))
    with pytest.raises(Diverged):
        lab.replay(lambda: send(harmless))


@folders
@pytest.mark.parametrize(
    "form", ["plain", "escaped_in_json", "double_escaped", "no_end_marker", "crlf", "with_line_numbers"]
)
def test_rd_03_no_line_of_a_private_key_is_kept(lab: Lab, folder: Path, form: str) -> None:
    case = load(folder, "rd03_fake_pem.json")
    lines = [line[:24] for line in case["must_be_gone"]]
    served = gone_and_replayed(lab, {"file": case[form]}, [case[form], case["public_key_stays"]], lines)
    assert served[1] == case["public_key_stays"]
    assert "[redacted:private-key#" in served[0]
    if form == "plain":
        assert all(words in served[0] for words in case["must_stay"])


@folders
def test_rd_03_a_key_in_the_pieces_of_a_stream(lab: Lab, folder: Path) -> None:
    case = load(folder, "rd03_fake_pem.json")
    pieces = ["before ", *case["streamed_chunks"], " after"]
    answers[:] = [pieces]
    assert lab.record(lambda: list(stream())) == pieces
    text = on_disk(lab)
    for piece in case["streamed_chunks"]:
        assert not any(line in text for line in piece.split("\n") if len(line) > 20)
    served = lab.replay(lambda: list(stream()))
    assert (len(served), served[0], served[-1]) == (len(pieces), "before ", " after")


@folders
def test_rd_04_only_the_secret_of_an_address_goes(lab: Lab, folder: Path) -> None:
    for case in load(folder, "rd04_urls.json"):
        url = case["in"]
        served = gone_and_replayed(lab, {"url": url}, {"text": f"see {url} there"}, case["gone"])
        for part in (*case.get("stay", ()), *case.get("stay_byte_for_byte", ())):
            assert part in served["text"]
        if not case["gone"]:
            assert served == {"text": f"see {url} there"}


@folders
def test_rd_05_harmless_text_comes_back_as_it_was(lab: Lab, folder: Path) -> None:
    values = load(folder, "rd05_must_not_redact.json")
    assert gone_and_replayed(lab, values, values, []) == values
    assert [envelope.grade for envelope in lab.envelopes()] == ["exact"]
    assert lab.envelopes()[0].redactions == ()


@folders
def test_rd_07_headers_in_both_directions(lab: Lab, folder: Path) -> None:
    case = load(folder, "rd07_headers.json")
    secrets = ["tok_demo_1", "dXNlcjpwYXNz", "sid=1", "sid=abc", "a=b"]
    served = gone_and_replayed(lab, {"headers": case["request"]}, {"headers": case["response"]}, secrets)
    assert [served["headers"]["x-request-id"], served["headers"]["x-ratelimit-remaining-tokens"]] == case["must_stay"]
    Path("pyproject.toml").write_text('[tool.otel_replay.redaction]\npaths = ["$..x-tenant"]\n')
    request = {"headers": {**case["request"], "x-tenant": "acme-and-sons"}}
    gone_and_replayed(lab, request, "ok", [*secrets, "acme-and-sons"])
    with pytest.raises(Diverged), replay("run", store=lab.store):
        send({"headers": {**case["request"], "x-tenant": "acme-and-sons", "x-more": "1"}})
