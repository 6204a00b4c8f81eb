"""REC-12, REC-13, REC-15, REC-16, REC-23: what is kept is what crossed, in value and type, as it was at that moment."""

from __future__ import annotations

import asyncio
import datetime as dt
import decimal
import enum
import importlib.util
import json
import logging
import math
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import openai
import pydantic
import pytest

from otel_replay import ReplayPlan, boundary, instrument, open_store, replay
from otel_replay.errors import Unencodable, Unservable
from otel_replay.showing import as_tree
from otel_replay.testing import ModelServer, reply
from tests.importers.genai._spans import of, span

from .clients import ASK, SHARED, openai_of
from .conftest import Lab


# REC-12 ------------------------------------------------------------------------------------------------------------
def test_rec_12_retry_code_takes_the_same_path(lab: Lab) -> None:
    def agent(url: str) -> list[Any]:
        path: list[Any] = []
        for _ in range(2):
            try:
                openai_of(url).chat.completions.create(model="m", messages=ASK)
            except openai.RateLimitError as fault:
                error: Any = fault.body
                path.append((fault.status_code, fault.response.headers["retry-after"], error["code"]))
            except openai.APIStatusError as fault:
                path.append(("other", fault.status_code))
        return path

    instrument("openai")
    with ModelServer([reply.error(429, "slow down", code="rate_limit", retry_after_s=2), reply.error(503)]) as server:
        recorded = lab.record(lambda: agent(server.root_url))
    assert recorded == [(429, "2", "rate_limit"), ("other", 503)]
    assert lab.replay(lambda: agent("http://127.0.0.1:9")) == recorded


RAISED: list[BaseException] = [
    asyncio.CancelledError("stop"),
    ExceptionGroup("several", [ValueError("a"), TimeoutError("b")]),
    KeyError("x"),
    OSError(28, "No space left on device", "/x"),
]


@pytest.mark.parametrize("given", RAISED[1:], ids=lambda fault: type(fault).__name__)
def test_rec_12_errors_of_tools_come_back_as_their_class(lab: Lab, given: BaseException) -> None:
    @boundary("fails", kind="tool")
    def fails() -> None:
        raise given from OSError(5, "cause")

    def agent() -> Any:
        try:
            fails()
        except type(given) as fault:
            return type(fault), str(fault), type(fault.__cause__), str(fault.__cause__)

    recorded = lab.record(agent)
    assert recorded[2] is OSError
    assert lab.replay(agent) == recorded


APP = """
import sys
from otel_replay import boundary, record, replay
from otel_replay.errors import Unservable

class QuotaError(Exception):
    def __init__(self, *, tenant, left):
        super().__init__(f"{tenant}: {left}")
        self.tenant, self.left = tenant, left

if sys.argv[1] == "gone":
    del QuotaError

@boundary("ask", kind="model")
def ask():
    raise QuotaError(tenant="t1", left=0)

with (record if sys.argv[1] == "record" else replay)("quota", store=sys.argv[2]):
    try:
        ask()
    except Unservable as fault:
        print("refused", fault)
    except Exception as fault:
        print(type(fault).__name__, fault.tenant, fault.left)
"""


def test_rec_12_a_class_that_is_gone_is_named_loudly_and_never_made_up(tmp_path: Path) -> None:
    (tmp_path / "myapp.py").write_text(APP)

    def run(how: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(__file__).parents[2])}
        command = [sys.executable, "-m", "myapp", how, str(tmp_path / "store")]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)

    assert run("record").stdout == "QuotaError t1 0\n"
    assert run("replay").stdout == "QuotaError t1 0\n"
    gone = run("gone")
    assert gone.stdout.startswith("refused ask[1] cannot be served")
    assert "QuotaError" in gone.stdout
    assert "t1" in gone.stdout
    assert gone.returncode == 1, "the end of the replay raises it again, whatever the agent caught"


# REC-13 ------------------------------------------------------------------------------------------------------------
def test_rec_13_the_prompt_is_that_of_the_call(lab: Lab) -> None:
    def agent(url: str) -> list[Any]:
        messages: list[Any] = [{"role": "user", "content": "hi", "parts": [{"n": 1}]}]
        client = openai_of(url)
        answer = client.chat.completions.create(model="m", messages=messages)
        messages.append({"role": "assistant", "content": answer.choices[0].message.content})
        messages[0]["parts"][0]["n"] = 2
        stream = client.chat.completions.create(model="m", messages=messages, stream=True)
        del messages[0]["parts"]
        messages.clear()
        return [chunk.choices[0].delta.content for chunk in stream]

    instrument("openai")
    with ModelServer([reply.text("blue"), reply.text("red")]) as server:
        recorded = lab.record(lambda: agent(server.root_url))
        wire = [request.json["messages"] for request in server.requests]
    kept: list[Any] = [envelope.request.tree() for envelope in lab.envelopes()]
    assert [found["messages"] for found in kept] == wire
    assert wire[0] == [{"role": "user", "content": "hi", "parts": [{"n": 1}]}]
    assert wire[1][0]["parts"] == [{"n": 2}]
    assert lab.replay(lambda: agent("http://127.0.0.1:9")) == recorded


class Uncopied:
    """Nothing can copy it, nothing can encode it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


def test_rec_13_a_tool_that_changes_its_arguments_changes_them_in_the_replay_too(lab: Lab) -> None:
    @boundary("tidy", kind="tool")
    def tidy(order: dict[str, Any], log: list[str], seen: set[int]) -> int:
        order["total"] = order.pop("qty") * 2
        order["lines"][0]["ok"] = True
        log += ["tidied"]
        seen.discard(1)
        return len(order)

    def agent() -> Any:
        order: dict[str, Any] = {"qty": 3, "lines": [{"sku": "a"}]}
        log: list[str] = []
        seen = {1, 2}
        return tidy(order, log, seen), order, log, seen

    recorded = lab.record(agent)
    (envelope,) = lab.envelopes()
    assert '"qty":3' in envelope.request.text
    assert envelope.changed is not None
    assert '"total":6' in envelope.changed.text
    assert lab.replay(agent) == recorded == (2, {"total": 6, "lines": [{"sku": "a", "ok": True}]}, ["tidied"], {2})


def test_rec_13_an_argument_that_cannot_be_copied_reaches_the_tool_itself(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_REPLAY_STRICT", "")
    given = Uncopied()

    @boundary("takes", kind="tool")
    def takes(thing: Uncopied, number: int) -> bool:
        return thing is given and number == 1

    assert lab.record(lambda: takes(given, 1), strict=False) is True
    (envelope,) = lab.envelopes()
    assert "Uncopied" in envelope.request.text
    assert "Uncopied object at 0x" not in envelope.request.text, "repr() is no value"
    assert lab.replay(lambda: takes(given, 1)) is True


# REC-15 ------------------------------------------------------------------------------------------------------------
class Event(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    name: str
    day: int


def test_rec_15_typed_results_stay_typed_without_a_warning(lab: Lab) -> None:
    def agent(url: str) -> tuple[Any, Any, str]:
        answer = openai_of(url).chat.completions.parse(model="m", messages=ASK, response_format=Event)
        before = answer.model_dump_json(warnings=False)
        parsed = answer.choices[0].message.parsed
        assert isinstance(parsed, Event)
        assert parsed.model_extra == {"mood": "gay", "when": [1, None]}
        return type(answer), parsed, before

    @boundary("held", kind="tool")
    def held(event: Event) -> Event:
        return event

    def whole(url: str) -> tuple[Any, ...]:
        kind, parsed, before = agent(url)
        return kind, parsed, before, held(parsed), held(parsed) is parsed

    instrument("openai")
    text = '{"name": "fair", "day": 3, "mood": "gay", "when": [1, null]}'
    with warnings.catch_warnings(), ModelServer([reply.text(text)]) as server:
        warnings.simplefilter("error")
        recorded = lab.record(lambda: whole(server.root_url))
        replayed = lab.replay(lambda: whole("http://127.0.0.1:9"))
    assert recorded[4], "the app holds the object that it held"
    assert replayed[:4] == recorded[:4]
    assert [type(item) for item in replayed[1:4:2]] == [Event, Event]


# REC-16 ------------------------------------------------------------------------------------------------------------
class Kind(enum.Enum):
    A = "a"


class P(NamedTuple):
    x: int
    y: int


@dataclass
class Row:
    id: int
    tags: set[str]


def own_tools() -> ModuleType:
    """Return tools of the shared file's kinds, and further ones."""
    made = ModuleType("own_tools")
    values: dict[str, Any] = {
        "tuple": (1, "a"), "set": {"b", "a"}, "bytes": b"\xff\x00PNG", "decimal": decimal.Decimal("0.10"),
        "datetime": dt.datetime(2026, 3, 29, 2, 30, tzinfo=dt.timezone(dt.timedelta(hours=2))), "enum": Kind.A,
        "namedtuple": P(1, 2), "dataclass": Row(1, {"x"}), "int_keys": {1: "a", "1": "b"}, "big_int": 2**70,
        "nan": [math.nan, math.inf, -0.0], "none": None, "empty": [(), {}, set(), ""], "bool_keys": {True: 1, None: 2},
        "nested": {"a": [(1, {2: {3, 4}})]}, "frozen": frozenset({1}), "range": range(3), "complex": 1j,
        "tuple_keys": {(1, 2): "x"}, "text_of_a_tag": {"$": "tuple", "v": [1]}, "delta": dt.timedelta(days=-1),
    }  # fmt: skip
    for name, value in values.items():
        setattr(made, f"t_{name}", lambda value=value: value)

    def t_generator() -> Iterator[int]:
        yield 1
        yield 2

    def t_cycle() -> list[Any]:
        a: list[Any] = []
        a.append(a)
        return a

    made.t_generator, made.t_cycle = t_generator, t_cycle  # type: ignore[attr-defined]
    made.t_object = lambda: object()  # type: ignore[attr-defined]
    return made


def shared_tools() -> ModuleType:
    spec = importlib.util.spec_from_file_location("rec16_tools", SHARED / "rec16_tools.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["rec16_tools"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TOOLS = [own_tools()] + ([shared_tools()] if (SHARED / "rec16_tools.py").exists() else [])
CASES = [(module, name) for module in TOOLS for name in sorted(vars(module)) if name.startswith("t_")]
UNKEPT = ("t_cycle", "t_object")


@pytest.mark.parametrize(
    ("module", "name"),
    [case for case in CASES if case[1] not in UNKEPT],
    ids=lambda found: getattr(found, "__name__", found),
)
def test_rec_16_the_replay_returns_what_the_first_run_returned(lab: Lab, module: ModuleType, name: str) -> None:
    tool = boundary(name, kind="tool")(getattr(module, name))

    def agent() -> Any:
        found = tool()
        return list(found) if name == "t_generator" else found

    recorded, replayed = lab.record(agent), lab.replay(agent)
    assert type(replayed) is type(recorded)
    assert repr(replayed) == repr(recorded) or replayed == recorded


@pytest.mark.parametrize(
    ("module", "name"),
    [case for case in CASES if case[1] in UNKEPT],
    ids=lambda found: getattr(found, "__name__", found),
)
def test_rec_16_what_cannot_be_kept_is_said_at_once(
    lab: Lab, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str
) -> None:
    tool = boundary(name, kind="tool")(getattr(module, name))
    with caplog.at_level(logging.WARNING):
        lab.record(lambda: [tool(), tool()], strict=False)
    said = [record.getMessage() for record in caplog.records if "cannot be replayed" in record.getMessage()]
    assert len(said) == 1, "at once, and once for each tool"
    assert said[0].startswith(f"result of {name}[1] cannot be replayed: ")
    first, second = lab.envelopes()
    assert first.outcome.lost_reason
    assert first.outcome.lost_reason == second.outcome.lost_reason
    assert " at 0x" not in first.outcome.value.text
    with open_store(lab.store) as store:
        shown = as_tree(store.recording(lab.run_id))
    assert f"{name}[1] [tool] {{}} returned, NOT REPLAYABLE: {first.outcome.lost_reason}" in shown
    with pytest.raises(Unencodable):
        lab.record(tool, strict=True)
    lab.record(tool, strict=False)
    with pytest.raises(Unservable, match=rf"{name}\[1\] cannot be served"):
        lab.replay(tool)


# REC-23 ------------------------------------------------------------------------------------------------------------
def test_rec_23_a_changed_stripping_rule_meets_the_models_own_words(lab: Lab) -> None:
    raw = 'Sure! Here it is:\n```json\n{"verdict": "ship", "score": 7}\n```'

    def agent(url: str, rule: str) -> Any:
        answer = openai_of(url).chat.completions.create(model="m", messages=ASK).choices[0].message.content or ""
        if rule == "old":
            answer = answer.partition("```json")[2].rpartition("```")[0]
            return json.loads(answer)["verdict"]  # all that the pipeline itself keeps
        start, end = answer.index("{"), answer.rindex("}")
        return json.loads(answer[start : end + 1])

    instrument("openai")
    with ModelServer([reply.text(raw)]) as server:
        assert lab.record(lambda: agent(server.root_url, "old")) == "ship"
        (wire,) = server.requests
    (envelope,) = lab.envelopes()
    body: Any = envelope.outcome.value.tree()
    assert body["body"]["choices"][0]["message"]["content"] == raw, "as received"
    assert envelope.request.tree() == wire.json, "as sent"
    assert lab.replay(lambda: agent("http://127.0.0.1:9", "new")) == {"verdict": "ship", "score": 7}
    assert lab.replay(lambda: agent("http://127.0.0.1:9", "new"), ReplayPlan()) == {"verdict": "ship", "score": 7}


def test_rec_23_what_was_rebuilt_from_derived_data_is_approximate_and_the_report_says_so(lab: Lab) -> None:
    said = [{"role": "user", "parts": [{"type": "text", "content": "hi"}]}]
    derived = {"gen_ai.operation.name": "chat", "gen_ai.system": "openai", "gen_ai.request.model": "m",
               "gen_ai.input.messages": json.dumps(said),
               "gen_ai.output.messages": json.dumps([{**said[0], "role": "assistant"}])}  # fmt: skip
    body = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
            "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant",
                                                                         "content": "hi"}}]}  # fmt: skip
    raw = {"openinference.span.kind": "LLM", "llm.system": "openai", "input.mime_type": "application/json",
           "input.value": json.dumps({"model": "m", "messages": [{"role": "user", "content": "ho"}]}),
           "output.value": json.dumps(body)}  # fmt: skip
    root = span("agent")
    found = of(root, span("chat m", derived, under=root, start=1), span("llm", raw, under=root, start=2))
    marked = ["approximate: its request and answer are rebuilt" in str(one.notes) for one in found.envelopes]
    assert marked == [True, False]
    assert as_tree(found).count("approximate: ") == 1

    def ask(text: str) -> Any:
        asked: Any = [{"role": "user", "content": text}]
        return openai_of("http://127.0.0.1:9").chat.completions.create(model="m", messages=asked).choices[0].message

    instrument("openai")
    with replay(found) as session:
        assert (ask("hi").content, ask("ho").content) == ("hi", "hi")
    first = found.envelopes[0].address
    note = f"approximate: rebuilt from derived data, not kept word for word: {first}"
    assert note in session.report.notes
    assert all(note in form for form in session.report.forms().values())
