"""Values of libraries: SDK answers and pydantic models (REC-15), numpy and pandas."""

from __future__ import annotations

import sys
from typing import Any

import anthropic.types
import httpx2
import numpy
import openai
import openai.types.chat
import pandas
import pydantic
import pydantic_core
import pytest

from otel_replay.envelope import Payload
from otel_replay.errors import Unservable
from otel_replay.payload import decode, encode, plain
from tests.payload.kinds import same


class Event(pydantic.BaseModel):
    name: str
    people: list[str]


ANSWER = {
    "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m", "x_new_field": {"a": 1},
    "choices": [{"index": 0, "finish_reason": "stop",
                 "message": {"role": "assistant", "content": '{"name":"fair","people":["Ann"]}', "odd": True}}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
}  # fmt: skip


def client() -> openai.OpenAI:
    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, json=ANSWER, headers={"x-request-id": "req_1"})

    transport = httpx2.Client(transport=httpx2.MockTransport(answer))
    return openai.OpenAI(api_key="none", base_url="http://model.example/v1", http_client=transport)


def test_rec15_a_parsed_answer_comes_back_typed_and_without_warnings(recwarn: pytest.WarningsRecorder) -> None:
    messages: Any = [{"role": "user", "content": "x"}]
    live = client().chat.completions.parse(model="m", messages=messages, response_format=Event)
    before = repr(live)
    served = decode(encode(live, strict=True))
    loose: Any = served  # fields that the class does not declare
    assert type(served) is type(live)
    assert type(served.choices[0]) is type(live.choices[0])
    assert served.choices[0].message.parsed == Event(name="fair", people=["Ann"])
    assert type(served.choices[0].message.parsed) is Event
    assert served == live
    assert same(served, live)
    assert served._request_id == "req_1"
    assert loose.x_new_field == {"a": 1}
    assert loose.choices[0].message.odd is True
    assert served.to_json(warnings=False) == live.to_json(warnings=False)
    assert repr(live) == before
    assert not [warning for warning in recwarn.list if "erializ" in str(warning.message)]


class Sparse(pydantic.BaseModel):
    name: str
    audio: str | None = None


def test_a_field_that_its_library_deleted_stays_deleted() -> None:
    live = Sparse(name="n")
    del live.audio
    served = decode(encode(live, strict=True))
    assert (vars(served), served) == ({"name": "n"}, live)
    assert served.model_dump(warnings=False) == live.model_dump(warnings=False)


def test_rec15_sdk_answers_come_back_as_their_classes() -> None:
    live = client().chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}])
    assert type(live) is openai.types.chat.ChatCompletion
    assert same(decode(encode(live, strict=True)), live)
    message = anthropic.types.Message.model_construct(
        id="msg_1", content=[anthropic.types.TextBlock(type="text", text="hi")], role="assistant"
    )
    assert same(decode(encode(message, strict=True)), message)
    assert plain(encode(message))["content"] == [{"citations": None, "text": "hi", "type": "text"}]


class Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True)
    n: int
    added: str = "default"

    @pydantic.field_validator("n")
    @classmethod
    def small(cls, n: int) -> int:
        raise AssertionError("validation ran")


def test_a_model_is_not_validated_again_and_new_fields_take_their_default() -> None:
    served = decode(encode(Strict.model_construct(n=5_000), strict=True))
    assert (served.n, served.model_fields_set) == (5_000, {"n"})
    name = f"{Strict.__module__}:Strict"
    older = Payload("typed-json", '{"$":"model","t":"NAME","v":{"n":1},"set":["n"]}'.replace("NAME", name))
    assert decode(older).added == "default"
    with pytest.raises(Unservable, match="has a field 'n' now"):
        decode(Payload("typed-json", older.text.replace('{"n":1}', "{}")))


ARRAYS = [
    numpy.arange(6).reshape(2, 3),
    numpy.array([1.5, numpy.nan, -0.0], "f4"),
    numpy.array(["a", None, {"x": (1,)}], object),
    numpy.zeros(3, [("a", "i4"), ("b", "f8")]),
    numpy.array(5),
    numpy.zeros((0, 3)),
    numpy.arange(1_000, dtype=">i2"),
    numpy.array(["ab", "c"]),
    numpy.array([b"ab"]),
    numpy.array(["2026-01-01"], "datetime64[ns]"),
    numpy.asfortranarray(numpy.ones((2, 2), complex)),
    numpy.array([True]),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: str(array.dtype))
def test_arrays_come_back(array: numpy.ndarray) -> None:
    back = decode(encode({"a": [array]}, strict=True))["a"][0]
    assert type(back) is numpy.ndarray
    assert (back.dtype, back.shape) == (array.dtype, array.shape)
    numpy.testing.assert_array_equal(back, array)
    assert back.flags.writeable


SCALARS = [
    *(
        numpy.float64(-0.0),
        numpy.float32("nan"),
        numpy.int8(-1),
        numpy.bool_(True),
        numpy.str_("é"),
        numpy.bytes_(b"x"),
    ),
    *(numpy.datetime64("2026-01-01"), numpy.timedelta64(5, "ms"), numpy.complex64(1j), numpy.uint64(2**64 - 1)),
    numpy.longdouble("0.1"),
]


@pytest.mark.parametrize(
    "scalar", SCALARS, ids=[f"{number}-{type(scalar).__name__}" for number, scalar in enumerate(SCALARS)]
)
def test_scalars_come_back(scalar: Any) -> None:
    back = decode(encode(scalar, strict=True))
    assert type(back) is type(scalar)
    assert repr(back) == repr(scalar)


def test_arrays_with_objects_inside_records_are_lost() -> None:
    assert "objects inside records" in encode(numpy.zeros(1, [("a", object)])).reason
    assert "not a kind" in encode(numpy.ma.masked_array([1])).reason


FRAMES = [
    pandas.DataFrame({"a": [1, 2], "b": ["x", None], "c": pandas.to_datetime(["2026", "2027"])}),
    pandas.DataFrame({"a": [1.0, numpy.nan]}, index=pandas.Index(["x", "y"], name="key")),
    pandas.DataFrame([[1, 2], [3, 4]]),
    pandas.DataFrame({"a": [1, 2]}, index=pandas.date_range("2026", periods=2, tz="Europe/Berlin")),
    pandas.DataFrame({"a": pandas.Categorical(["x", "y"]), "b": pandas.array([1, None], "Int64")}),
    pandas.DataFrame({"a": [1]}, index=pandas.MultiIndex.from_tuples([("x", 1)], names=["p", "q"])),
    pandas.DataFrame({"a": [1, 2]}, index=pandas.period_range("2026-01", periods=2, freq="M")),
    pandas.DataFrame(),
]


@pytest.mark.parametrize("frame", FRAMES, ids=lambda frame: str(list(frame.columns)))
def test_frames_come_back(frame: pandas.DataFrame) -> None:
    back = decode(encode(frame, strict=True))
    pandas.testing.assert_frame_equal(back, frame, check_exact=True)
    assert type(back.index) is type(frame.index)
    assert getattr(back.index, "freq", None) == getattr(frame.index, "freq", None)
    for column in frame.columns:
        served = decode(encode(frame[column], strict=True))
        pandas.testing.assert_series_equal(served, frame[column], check_exact=True)
        assert same(served.name, column)


def test_a_frame_that_arrow_would_change_is_lost() -> None:
    for frame in (pandas.DataFrame({"a": [1, "x"]}), pandas.DataFrame({"a": [(1, 2)]}), pandas.DataFrame({"a": [{1}]})):
        payload = encode({"f": frame})
        assert payload.reason.startswith("f: the frame")


MOMENTS = ["2026-10-25 02:30", "2026-01-01 00:00:00.123456789", "1700-01-01"]


@pytest.mark.parametrize("text", MOMENTS)
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin", "+02:00"])
def test_pandas_moments_come_back(text: str, zone: str | None) -> None:
    moment = pandas.Timestamp(text, tz="UTC" if zone else None)
    moment = moment.tz_convert(zone) if zone else moment
    back = decode(encode(moment, strict=True))
    assert (type(back), repr(back), back.unit, back.fold) == (type(moment), repr(moment), moment.unit, moment.fold)
    assert decode(encode(pandas.Timedelta("1s"))).unit == pandas.Timedelta("1s").unit
    assert decode(encode(pandas.NaT)) is pandas.NaT
    assert decode(encode(pandas.NA)) is pandas.NA


def test_a_library_that_is_not_imported_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    payload = encode(numpy.arange(2))
    monkeypatch.delitem(sys.modules, "numpy")
    with pytest.raises(Unservable, match="numpy, which is not imported here"):
        decode(payload)


@pytest.mark.parametrize(
    "address",
    [
        pydantic.AnyUrl("desk://rules"),
        pydantic.HttpUrl("https://example.com/a%20b?q=1#there"),
        pydantic.FileUrl("file:///desk/a.txt"),
        pydantic.PostgresDsn("postgresql://user@one:5432,two:5433/db"),
        pydantic_core.Url("https://münchen.example/x"),
        pydantic_core.MultiHostUrl("mongodb://a,b/db"),
    ],
)
def test_pydantic_addresses_come_back(address: Any) -> None:
    found = decode(encode(address, strict=True))
    assert type(found) is type(address)
    assert (found, str(found), repr(found)) == (address, str(address), repr(address))
