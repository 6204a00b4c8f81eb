"""YAML from anywhere: plain values are read; what makes objects, grows without bound or never ends is refused."""

from __future__ import annotations

import io
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from otel_replay.errors import ImportFault
from otel_replay.importers import open_source, yaml_text
from otel_replay.importers.result import Report

_LAUGHS = "interactions:\n- l0: &l0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n" + "".join(
    f"  l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]\n" for n in range(1, 10)
)
_GOOD = "- request: {method: GET, uri: 'http://a.test/'}\n  response: {status: {code: 200}, body: {string: ''}}\n"


def read(text: str | bytes) -> list[Any]:
    data = text.encode() if isinstance(text, str) else text
    return list(yaml_text.interactions(io.BytesIO(data), Report()))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("interactions:\n- !!python/object/apply:os.system [ls]\n", "!!python/object/apply:os.system at line 2"),
        ("interactions:\n- a: !!python/object/new:_io.BytesIO {state: [x]}\n", "!!python/object/new"),
        ("interactions:\n- a: !!python/name:os.system ''\n", "!!python/name:os.system"),
        ("interactions: !!python/object:x.Y\n- a: 1\n", "!!python/object:x.Y"),
        ("interactions:\n- a: !mine x\n", "!mine at line 2"),
        ("interactions:\n- a: !!set {x}\n", "!!set"),
        (_LAUGHS, "larger than 67108864 bytes, aliases counted"),
        ("interactions:\n- a: &a [*a]\n", r"alias \*a stands for nothing, or for itself"),
        ("interactions:\n- a: *b\n", "alias"),
        ("interactions: " + "[" * 100_000, "YAML"),
        ("interactions:\n- " + "a: {" * 300 + "}" * 300, "nested deeper than 200"),
        ("interactions:\n- ? [a]\n  : b\n", "a key that is no text"),
        ("interactions:\n- a: !!binary '!!!'\n", "not base64"),
        (b"interactions:\n- a: \xff\xfe\n", "not YAML"),
        ("interactions: 7\n", "no list of exchanges"),
        ("a: 1\n", "no list of exchanges"),
        ("", "no list of exchanges"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_hostile_yaml_is_refused(text: str | bytes, said: str) -> None:
    with pytest.raises(ImportFault, match=said):
        read(text)


def test_an_endless_value_is_refused_before_it_is_held() -> None:
    class Endless(io.RawIOBase):
        given = 0

        def read(self, size: int = -1) -> bytes:
            self.given += 65_536
            return b"interactions:\n- a: '" if self.given == 65_536 else b"x" * 65_536

    endless: Any = Endless()
    with pytest.raises(ImportFault, match="larger than"):
        list(yaml_text.interactions(endless, Report()))
    assert endless.given < 100_000_000


def test_a_long_cassette_is_read_in_bounded_memory(tmp_path: Path) -> None:
    file = tmp_path / "long.yaml"
    with file.open("w") as out:
        out.write("interactions:\n")
        one = _GOOD.replace("string: ''", f"string: '{'x' * 100_000}'")
        for _ in range(120):
            out.write(one)
    tracemalloc.start()
    count = sum(1 for _ in open_source(file))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 121
    assert peak < 4_000_000


def test_plain_values_are_what_vcrpy_means() -> None:
    (found,) = read(
        "interactions:\n- date: 2020-01-01\n  word: yes\n  nothing: ~\n  code: 0200\n  number: 200\n  half: 0.5\n"
        "  true: true\n  bytes: !!binary aGk=\n  shared: &one [a, b]\n  again: *one\n  old: !!python/unicode 'x'\n"
        "  pair: !!python/tuple [1, 2]\n"
    )
    assert found == {"date": "2020-01-01", "word": "yes", "nothing": None, "code": "0200", "number": 200, "half": 0.5,
                     "True": True, "bytes": b"hi", "shared": ["a", "b"], "again": ["a", "b"], "old": "x",
                     "pair": [1, 2]}  # fmt: skip


@pytest.mark.parametrize("head", ["", "\ufeff", "---\n", "# by hand\n\n---\n", "%YAML 1.1\n---\n", "version: 1\n"])
def test_a_cassette_is_known_by_its_content(tmp_path: Path, head: str) -> None:
    (tmp_path / "no_ending").write_text(f"{head}interactions:\n{_GOOD}", encoding="utf-8")
    result = open_source(tmp_path / "no_ending")
    assert [span.name for span in result] == ["GET a.test", "no_ending"]
    assert result.format == "vcr"


def test_utf_16_too(tmp_path: Path) -> None:
    (tmp_path / "wide.yaml").write_text(f"interactions:\n{_GOOD}", encoding="utf-16")
    assert len(open_source(tmp_path / "wide.yaml").spans) == 2


def test_what_breaks_off_is_told_and_the_rest_is_kept() -> None:
    result = open_source(f"interactions:\n{_GOOD}- request: [1, 2\n- x".encode())
    assert len(result.spans) == 2
    (problem,) = result.problems
    assert (problem.kind, problem.what[:40]) == ("partial", "the YAML breaks off after 1 exchanges: w")


def test_an_exchange_that_cannot_be_read_is_skipped_counted_and_named() -> None:
    bad = "- request: {method: GET, uri: 'file:///etc/passwd'}\n  response: {status: {code: 200}}\n"
    result = open_source(f"interactions:\n{bad}{_GOOD}{bad}- 7\n".encode())
    assert len(result.spans) == 2
    assert {problem.what: (problem.count, problem.where) for problem in result.problems} == {
        "an exchange of a cassette: the address is 'file:///etc/passwd', not an http address": (
            2, ["exchange 1", "exchange 3"]),
        "an exchange of a cassette: it has no request, or no response": (1, ["exchange 4"]),
    }  # fmt: skip


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ImportFault, match=r"pip install 'otel-replay\[vcr\]'"):
        read("interactions: []")
