"""Hand-made recordings: the decoder refuses by Unservable, imports nothing and runs nothing."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path
from typing import Any, cast

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_replay.encodings import core, names
from otel_replay.envelope import Payload
from otel_replay.errors import Unencodable, Unservable, UsageError
from otel_replay.payload import allow_packages, decode, encode, plain, register
from tests.payload import kinds
from tests.payload.kinds import same
from tests.payload.malformed import NOTHING_LIKE_IT

ROOT = Path(__file__).parents[2]
NAMING = {"class", "function", "exception", "model", "dataclass", "attrs", "enum", "flag", "subclass", "registered"}
TAGS = sorted(core._DECODERS)
TARGETS = [
    "os:system",
    "posix:system",
    "subprocess:Popen",
    "subprocess:run",
    "builtins:eval",
    "builtins:exec",
    "pty:spawn",
    "builtins:open",
    "builtins:__import__",
    "importlib:import_module",
    "shutil:rmtree",
    "types:FunctionType",
    "socket:socket",
    "os:environ",
    "sys:modules",
    "sys:",
    ":system",
    "os",
    "",
    "tests.payload.kinds:borrowed",
    "os.path:os.system",
    "ctypes:CDLL",
]


def refused(tree: object, match: str = ".") -> None:
    with pytest.raises(Unservable, match=match):
        decode(Payload("typed-json", orjson.dumps(tree).decode()))


@pytest.mark.parametrize("target", TARGETS)
def test_a_name_of_something_dangerous_is_refused_under_every_tag(target: str) -> None:
    with pytest.raises(Unservable):
        decode(Payload("typed-json", '{"$":"zoneinfo","v":"No/Where"}'))  # the time zone data is looked up once
    before = set(sys.modules)
    for tag in TAGS:
        for v in ("touch /tmp/owned", ["touch /tmp/owned"], {"args": "id"}, None):
            tree = {
                "$": tag,
                "t": target,
                "v": v,
                "of": "list",
                "name": "A",
                "args": {"$": "tuple", "v": ["id"]},
                "set": [],
            }
            try:
                made = decode(Payload("typed-json", orjson.dumps(tree).decode()))
            except Unservable:
                continue
            assert tag not in NAMING
            assert not callable(made)
    assert set(sys.modules) == before


@pytest.mark.parametrize("tree", NOTHING_LIKE_IT, ids=lambda tree: ascii(tree)[:70])
def test_a_malformed_value_is_refused(tree: object) -> None:
    import httpx  # noqa: F401 - so that the classes are there
    import pandas  # noqa: F401

    refused(tree)
    refused([{"a": tree}])
    orjson.dumps(plain(Payload("typed-json", orjson.dumps(tree).decode())))


SCRAPS = st.recursive(
    st.none() | st.integers(-9, 9) | st.sampled_from(["builtins:int", kinds.Row.__module__ + ":Row", "0x9", "\\u12"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.builds(
            lambda tag, rest: {"$": tag, **rest},
            st.sampled_from(TAGS),
            st.dictionaries(
                st.sampled_from(["v", "t", "args", "of", "state", "name", "set", "tz", "factory"]), inner, max_size=4
            ),
        )
    ),
    max_leaves=10,
)


@settings(max_examples=100, deadline=None)
@given(SCRAPS)
def test_any_arrangement_of_tags_is_a_value_or_refused(tree: object) -> None:
    payload = Payload("typed-json", orjson.dumps(tree).decode())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            decode(payload)
    except Unservable:
        pass
    orjson.dumps(plain(payload))


@pytest.mark.parametrize(
    "text", ["[" * 900 + "]" * 900, "[" * 100_000, '{"$":"tuple","v":[' * 450 + "]}" * 450, "{", "", "NaN"]
)
def test_text_that_is_too_deep_or_no_json_is_refused(text: str) -> None:
    with pytest.raises(Unservable):
        decode(Payload("typed-json", text))


def test_unknown_encodings_and_losses_are_refused() -> None:
    with pytest.raises(Unservable, match="pickle"):
        decode(Payload("pickle", '"x"'))
    with pytest.raises(Unservable, match="holds an open connection"):
        decode(Payload("lost", "null", "socket.socket holds an open connection and cannot be kept"))


def test_losses_name_path_and_reason() -> None:
    import socket
    import threading

    with socket.socket() as connection:
        payload = encode({"result": {"conn": connection, "lock": threading.Lock(), "odd key": 1}})
    assert payload.encoding == "typed-json"
    assert payload.reason == "result.conn: socket.socket holds an open connection and cannot be kept"
    assert cast(Any, payload.tree())["result"]["conn"]["t"] == "socket.socket"
    assert encode([{"odd key": object()}]).reason.startswith("[0]['odd key']: object is not a kind")
    assert encode({"$": (1, object())}).reason.startswith("['$'][1]: object")
    with pytest.raises(Unservable, match=r"result\.conn: socket\.socket holds"):
        decode(payload)
    assert plain(payload)["result"]["conn"].startswith("<lost: socket.socket holds")

    async def coroutine() -> None: ...

    waiting = coroutine()
    for value, word in (
        (threading.Lock(), "lock"),
        (sys, "module"),
        (os.system, "os"),
        (iter([]), "iterator"),
        (object(), "register"),
        (waiting, "coroutine"),
        ([].append, "bound"),
        (sys.stdout, "open file"),
        (lambda: 1, "lambda"),
    ):
        assert word in encode(value).reason
        assert encode(value).lost
    waiting.close()


class Sabotage:
    """Whatever is asked of it, it raises."""

    def __getattribute__(self, name: str) -> object:
        raise RuntimeError(name)

    def __repr__(self) -> str:
        raise RuntimeError

    __str__ = __hash__ = __eq__ = __len__ = __iter__ = __repr__  # type: ignore[assignment]


class Traitor(dict):  # type: ignore[type-arg]
    def __iter__(self) -> object:  # type: ignore[override]
        raise SystemError

    keys = values = items = __len__ = __iter__  # type: ignore[assignment]


def test_a_value_that_fights_back_is_lost_or_kept_and_never_raises() -> None:
    assert "Sabotage" in encode(Sabotage()).reason
    assert "Sabotage" in encode([Sabotage()]).reason
    traitor = Traitor()
    dict.__setitem__(traitor, "a", 1)
    back = decode(encode(traitor, strict=True))
    assert type(back) is Traitor
    assert dict.__getitem__(back, "a") == 1
    with pytest.raises(Unencodable, match="Sabotage"):
        encode(Sabotage(), strict=True)


# Registry and names ----------------------------------------------------------------------------------------


class Money:
    def __init__(self, amount: int) -> None:
        self.amount = amount


def test_registered_classes_come_back() -> None:
    assert "register" in encode(Money(5)).reason
    register(Money, name="app-money", to_state=lambda m: (m.amount,), from_state=lambda s: Money(*s))
    payload = encode({"m": Money(5)}, strict=True)
    assert payload.text == '{"m":{"$":"registered","t":"app-money","v":{"$":"tuple","v":[5]}}}'
    assert decode(payload)["m"].amount == 5
    with pytest.raises(UsageError, match="app-money"):
        register(kinds.Row, name="app-money", to_state=vars, from_state=lambda s: s)
    register(kinds.Default, name="odd", to_state=lambda d: 1, from_state=lambda s: s)
    try:
        with pytest.raises(Unservable, match="from_state of odd returned int"):
            decode(encode(kinds.Default()))
    finally:
        names_of = __import__("otel_replay.encodings.classes", fromlist=["_registered"])
        del names_of._registered[kinds.Default], names_of._from_registered["odd"]
        core.forget_picks()


def test_a_class_inside_a_function_comes_back_in_this_process_only() -> None:
    import dataclasses

    @dataclasses.dataclass
    class Inner:
        x: int

    payload = encode(Inner(1))
    assert same(decode(payload).x, 1)
    assert type(decode(payload)) is Inner
    names._seen.pop(names.name_of(Inner))
    with pytest.raises(Unservable, match="inside a function"):
        decode(payload)


def run(folder: Path, *command: str) -> str:
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


AGENT = textwrap.dedent("""
    import dataclasses, sys
    from otel_replay.payload import encode, decode
    from otel_replay.envelope import Payload
    @dataclasses.dataclass
    class Plan:
        steps: int
    if __name__ == "__main__":
        print(decode(Payload("typed-json", sys.argv[1])).steps if sys.argv[1:] else encode(Plan(3)).text)
""")


def test_classes_of_the_main_module_have_its_importable_name(tmp_path: Path) -> None:
    (tmp_path / "agent_x.py").write_text(AGENT)
    text = run(tmp_path, "agent_x.py").strip()
    assert text == '{"$":"dataclass","t":"agent_x:Plan","v":{"steps":3}}'
    assert run(tmp_path, "-m", "agent_x").strip() == text
    assert run(tmp_path, "agent_x.py", text).strip() == "3"
    ask = (
        "import agent_x; from otel_replay.payload import decode, Payload as P; print(type(decode(P('typed-json',%r))))"
    )
    assert run(tmp_path, "-c", ask % text).strip() == "<class 'agent_x.Plan'>"


def test_only_allowed_packages_are_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "allowed_pkg"
    package.mkdir()
    (package / "__init__.py").write_text("class Oops(Exception): pass\ndef __getattr__(name): raise SystemExit(name)")
    (tmp_path / "allowed_pkg_not.py").write_text("class Oops(Exception): pass")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(names, "_allowed", set())
    tree = {"$": "exception", "t": "allowed_pkg:Oops", "args": {"$": "tuple", "v": []}}
    refused(tree, "allow_packages")
    assert "allowed_pkg" not in sys.modules
    allow_packages(["allowed_pkg"])
    refused({**tree, "t": "allowed_pkg_not:Oops"}, "allow_packages")
    refused({**tree, "t": "allowed_pkg.nosuch:Oops"}, "cannot be imported")
    assert type(decode(Payload("typed-json", orjson.dumps(tree).decode()))).__module__ == "allowed_pkg"
    refused({**tree, "t": "allowed_pkg:lazy"}, "not there")


def test_the_package_names_no_pickle_and_loads_no_heavy_library() -> None:
    for path in (ROOT / "otel_replay" / "encodings").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                assert not {alias.name for alias in node.names} & {
                    "pickle",
                    "marshal",
                    "copyreg",
                    "numpy",
                    "pandas",
                    "httpx",
                }
    loaded = run(ROOT, "-c", "import sys, otel_replay.payload; print(sorted({m.split('.')[0] for m in sys.modules}))")
    assert not set(ast.literal_eval(loaded)) & {"numpy", "pandas", "pyarrow", "duckdb", "httpx", "pydantic", "openai"}
