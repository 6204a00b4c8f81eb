"""Recorded exceptions can be raised again (REC-12): same class, same facts, caught by the same `except`."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import urllib.error
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import anthropic
import httpx
import httpx2
import openai
import pydantic
import pydantic_core
import pytest
import requests

from otel_replay.envelope import Payload
from otel_replay.errors import Unservable
from otel_replay.limits import EXCEPTION_CHAIN_MAX
from otel_replay.payload import decode, encode, plain

CASES = Path(__file__).parents[3] / "shared" / "cases" / "rec12_exceptions.json"
OWN_CASES = [
    {
        "raised": "openai.RateLimitError",
        "ctor": {
            "response": {"status": 429, "headers": {"retry-after": "2"}},
            "body": {"error": {"code": "rate_limit"}},
        },
        "must_be_caught_by": ["openai.RateLimitError", "openai.APIStatusError"],
        "must_expose": {"status_code": 429, "response.headers.retry-after": "2"},
    },
    {
        "raised": "anthropic.APIStatusError",
        "ctor": {"response": {"status": 529}, "body": {"type": "error", "error": {"type": "overloaded_error"}}},
        "must_be_caught_by": ["anthropic.APIStatusError"],
    },
    {
        "raised": "openai.APITimeoutError",
        "ctor": {"request": "POST /v1/chat/completions"},
        "must_be_caught_by": ["openai.APITimeoutError", "openai.APIConnectionError"],
    },
]
SDKS = {"openai": openai, "anthropic": anthropic}


def sdk_cases() -> list[dict[str, Any]]:
    shared = json.loads(CASES.read_text()) if CASES.exists() else []
    return OWN_CASES + [case for case in shared if case["raised"].partition(".")[0] in SDKS]


def named(path: str) -> type[Exception]:
    module, name = path.split(".")
    found = getattr(SDKS[module], name)
    assert isinstance(found, type)
    assert issubclass(found, Exception)
    return found


def make(case: dict[str, Any]) -> Any:
    cls: Any = named(case["raised"])
    ctor = case["ctor"]
    request = httpx2.Request("POST", "https://api.example/v1/chat/completions", json={"model": "m"})
    if "request" in ctor:
        return cls(request=request)
    answer = ctor["response"]
    response = httpx2.Response(
        answer["status"], headers=answer.get("headers"), json=ctor["body"], request=request, extensions={"x": b"y"}
    )
    return cls("the provider said no", response=response, body=ctor["body"])


@pytest.mark.parametrize("case", sdk_cases(), ids=lambda case: case["raised"])
def test_rec12_sdk_errors_come_back_as_their_class(case: dict[str, Any]) -> None:
    recorded = make(case)
    served = decode(encode(recorded, strict=True))
    assert type(served) is type(recorded)
    for caught in case["must_be_caught_by"]:
        with pytest.raises(named(caught)):
            raise served
    assert str(served) == str(recorded)
    assert served.args == recorded.args
    assert served.body == recorded.body
    assert vars(served).keys() == vars(recorded).keys()
    assert (served.request.method, served.request.url) == (recorded.request.method, recorded.request.url)
    assert served.request.read() == b'{"model":"m"}'
    if isinstance(recorded, openai.APIStatusError | anthropic.APIStatusError):
        assert served.status_code == recorded.status_code == case["ctor"]["response"]["status"]
        assert type(served.response) is httpx2.Response
        assert served.response.headers.raw == recorded.response.headers.raw
        assert served.response.json() == case["ctor"]["body"]
        assert served.response.extensions == {"x": b"y"}
    if "must_expose" in case:
        assert served.response.headers["retry-after"] == "2"


def test_rec12_a_compressed_body_comes_back_as_it_was_read() -> None:
    response = httpx.Response(200, headers={"content-encoding": "gzip"}, content=__import__("gzip").compress(b"hello"))
    served = decode(encode(response, strict=True))
    assert (served.content, served.text, served.headers.raw) == (b"hello", "hello", response.headers.raw)
    with pytest.raises(RuntimeError, match="request"):
        _ = served.request


def test_rec12_a_response_that_was_never_read_stays_unread() -> None:
    served = decode(encode(httpx.Response(200, stream=httpx.ByteStream(b"x")), strict=True))
    with pytest.raises(httpx.ResponseNotRead):
        _ = served.content


@pytest.mark.parametrize("library", [httpx, httpx2])
def test_headers_come_back_in_wire_order_and_of_their_class(library: Any) -> None:
    headers = library.Headers([(b"B", b"1"), (b"a", b"\xe9"), (b"b", b"2")])
    served = decode(encode(headers, strict=True))
    assert (type(served), served.raw, served["b"]) == (library.Headers, headers.raw, "1, 2")


def test_rec12_requests_errors_come_back_with_their_response() -> None:
    response = requests.Response()
    response.status_code, response._content, response.url = 503, b"busy", "https://x/y"
    response.headers["Retry-After"] = "7"
    response.cookies.set("k", "v", domain="x")
    response.request = requests.Request("POST", "https://x/y", data="q").prepare()
    try:
        response.raise_for_status()
    except requests.HTTPError as error:
        recorded = error
    served = decode(encode(recorded, strict=True))
    assert type(served) is requests.HTTPError
    assert served.response is not None
    assert isinstance(served.request, requests.PreparedRequest)
    assert str(served) == str(recorded)
    assert (served.response.status_code, served.response.text, served.response.url) == (503, "busy", "https://x/y")
    assert served.response.headers["retry-after"] == "7"
    assert served.response.cookies.get_dict() == {"k": "v"}
    assert (served.request.method, served.request.body) == ("POST", "q")


def test_rec12_the_class_is_gone_says_class_and_arguments() -> None:
    text = '{"$":"exception","t":"myapp.errors:QuotaError","args":{"$":"tuple","v":["t1",0]}}'
    with pytest.raises(Unservable, match=r"myapp\.errors:QuotaError.*'t1', 0"):
        decode(Payload("typed-json", text))
    assert "myapp" not in sys.modules
    assert plain(Payload("typed-json", text)) == {"type": "myapp.errors:QuotaError", "args": ["t1", 0]}


class Picky(OSError):
    """An error whose constructor asks for what `args` does not hold."""

    def __init__(self, *, tenant: str, left: int) -> None:
        super().__init__(f"{tenant} has {left} left")
        self.tenant, self.left = tenant, left


class Slotted(ValueError):
    __slots__ = ("code",)

    def __init__(self, code: int) -> None:
        self.code = code


class Wide(ExceptionGroup[Exception]):
    def derive(self, excs: Sequence[Any]) -> Any:
        return Wide(self.message, excs)


def facts(error: BaseException) -> tuple[Any, ...]:
    members = (
        *("errno", "strerror", "filename", "filename2", "value", "code", "name", "path", "msg", "lineno", "text"),
        *("encoding", "object", "start", "end", "reason", "tenant", "left", "returncode", "output"),
        "characters_written",
    )
    held = {}
    for name in members:
        try:
            held[name] = getattr(error, name)
        except (AttributeError, TypeError):
            continue
    nested = tuple(map(facts, error.exceptions)) if isinstance(error, BaseExceptionGroup) else repr(error.args)
    return type(error), str(error), held, nested, getattr(error, "__notes__", None)


FAULTY = (
    *("{}['x']", "int('x')", "open('/no/such/file')", "b'\\xff'.decode()", "'\\ud83d'.encode()", "nosuch"),
    *("(1).nosuch", "import nosuchmodule", "from os import nosuch", "1 +", "1/0", "[][1]", "assert 0, 'no'"),
)


def provoked() -> list[BaseException]:
    made: list[BaseException] = []
    for code in FAULTY:
        try:
            exec(code, {})
        except Exception as error:
            made.append(error.with_traceback(None))
    return made


KEPT: list[BaseException] = [
    *provoked(),
    Picky(tenant="t1", left=0),
    Slotted(7),
    StopIteration(3),
    StopAsyncIteration(),
    SystemExit(2),
    KeyboardInterrupt(),
    GeneratorExit(),
    asyncio.CancelledError("stop"),
    TimeoutError(),
    OSError(2, "no", "a", None, "b"),
    BlockingIOError(11, "again", 5),
    ConnectionResetError(104, "reset"),
    subprocess.CalledProcessError(1, ["ls"], b"out"),
    json.JSONDecodeError("bad", "{", 1),
    urllib.error.URLError("down"),
    UnicodeTranslateError("abc", 0, 1, "odd"),
    ExceptionGroup("several", [ValueError("a"), TimeoutError("b")]),
    BaseExceptionGroup("several", [KeyboardInterrupt(), Wide("w", [KeyError("k")])]),
    Exception({"a": (1, 2)}, float("inf")),
]


@pytest.mark.parametrize("error", KEPT, ids=[f"{number}-{type(error).__name__}" for number, error in enumerate(KEPT)])
def test_rec12_class_arguments_and_members_come_back(error: BaseException) -> None:
    served = decode(encode(error, strict=True))
    assert facts(served) == facts(error)
    with pytest.raises(type(error)):
        raise served


def test_rec12_cause_context_notes_and_suppression_come_back() -> None:
    try:
        try:
            raise OSError(5, "disk")
        except OSError as inner:
            raise KeyError("x") from inner
    except KeyError as error:
        chained = error
    chained.add_note("seen on Tuesday")
    served = decode(encode(chained, strict=True))
    assert (type(served), served.args, served.__notes__) == (KeyError, ("x",), ["seen on Tuesday"])
    assert type(served.__cause__) is OSError
    assert served.__cause__.errno == 5
    assert served.__context__ is served.__cause__
    assert served.__suppress_context__
    try:
        try:
            raise OSError
        except OSError:
            raise KeyError("x") from None
    except KeyError as error:
        silenced = error
    served = decode(encode(silenced, strict=True))
    assert (served.__cause__, served.__suppress_context__, type(served.__context__)) == (None, True, OSError)


def test_rec12_a_context_that_cannot_be_kept_is_left_out_and_a_cause_is_not() -> None:
    error, held = KeyError("x"), ValueError(object())
    error.__context__ = held
    payload = encode(error, strict=True)
    assert decode(payload).__context__ is None
    error.__cause__ = held
    payload = encode(error)
    assert payload.reason.startswith("__cause__.args[0]: object is not a kind of value")
    with pytest.raises(Unservable, match="__cause__"):
        decode(payload)


def test_rec12_a_long_chain_of_contexts_is_cut_and_a_circle_ends() -> None:
    error: BaseException = ValueError("last")
    for number in range(3 * EXCEPTION_CHAIN_MAX):
        outer = ValueError(number)
        outer.__context__ = error
        error = outer
    served, length = decode(encode(error, strict=True)), 0
    while served.__context__ is not None:
        served, length = served.__context__, length + 1
    assert length == EXCEPTION_CHAIN_MAX - 1
    a, b = ValueError("a"), ValueError("b")
    a.__cause__, b.__cause__ = b, a
    assert "contains itself" in encode(a).reason


class Order(pydantic.BaseModel):
    symbol: str
    quantity: Annotated[int, pydantic.Field(gt=0)]

    @pydantic.field_validator("symbol")
    @classmethod
    def known(cls, symbol: str) -> str:
        if symbol == "?":
            raise ValueError("no such symbol")
        return symbol


@pytest.mark.parametrize(
    "ask",
    [
        lambda: Order(symbol="?", quantity=0),
        lambda: Order(**cast(Any, {"quantity": "x"})),
        lambda: Order.model_validate_json('{"symbol": 1, "quantity": [1]}'),
        lambda: Order.model_validate_json("{"),
    ],
)
def test_validation_errors_come_back(ask: Callable[[], object]) -> None:
    with pytest.raises(pydantic.ValidationError) as caught:
        ask()
    caught.value.add_note("seen")
    served = decode(encode(caught.value, strict=True))
    assert type(served) is pydantic.ValidationError
    assert str(served) == str(caught.value)
    assert repr(served.errors()) == repr(caught.value.errors())
    assert served.__notes__ == ["seen"]


def test_an_exception_that_is_built_in_c_is_named_when_it_is_recorded() -> None:
    assert "built in C" in encode(pydantic_core.PydanticCustomError("odd", "an odd error")).reason
