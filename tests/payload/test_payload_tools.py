"""The fifteen tools whose results are not plain JSON (REC-16), and text that is no Unicode (OT-16)."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import duckdb
import orjson
import pytest

from otel_replay.errors import Unencodable, Unservable
from otel_replay.payload import decode, encode

SHARED = Path(__file__).parents[3] / "shared" / "cases"


class Kind(enum.Enum):
    A = "a"


class P(NamedTuple):
    x: int
    y: int


@dataclasses.dataclass
class Row:
    id: int
    tags: set[str]


KEPT = [
    (1, "a"),
    {"b", "a"},
    b"\xff\x00PNG",
    dt.datetime(2026, 3, 29, 2, 30, tzinfo=dt.timezone(dt.timedelta(hours=2))),
    decimal.Decimal("0.10"),
    Kind.A,
    P(1, 2),
    Row(1, {"x"}),
    {1: "a", "1": "b"},
    2**70,
    None,
    [-0.0, math.inf],
]


@pytest.mark.parametrize("value", KEPT, ids=[f"{number}-{type(value).__name__}" for number, value in enumerate(KEPT)])
def test_rec16_a_result_comes_back_in_value_and_type(value: object) -> None:
    back = decode(encode(value, strict=True))
    assert back == value
    assert type(back) is type(value)
    assert repr(back) == repr(value) or isinstance(value, set)


def test_rec16_the_timezone_and_the_sign_of_zero_come_back() -> None:
    moment = decode(encode(KEPT[3]))
    assert moment.utcoffset() == dt.timedelta(hours=2)
    nan, inf, zero = decode(encode([math.nan, math.inf, -0.0]))
    assert math.isnan(nan)
    assert inf == math.inf
    assert math.copysign(1, zero) == -1


def _generator() -> object:
    yield 1


def _cycle() -> object:
    a: list[object] = []
    a.append(a)
    return a


@pytest.mark.parametrize(("make", "word"), [(_generator, "generator"), (_cycle, "contains itself")])
def test_rec16_what_cannot_be_kept_says_so_at_once(make: Callable[[], object], word: str) -> None:
    payload = encode(make())
    assert word in payload.reason
    assert "<generator object" not in payload.text
    with pytest.raises(Unservable, match=word):
        decode(payload)
    with pytest.raises(Unencodable, match=word):
        encode(make(), strict=True)


def _lone_surrogates() -> list[object]:
    own = {"role": "user", "content": "cut emoji: \ud83d end", "\udfff-key": 1}
    path = SHARED / "ot16_lone_surrogate.json"
    return [own, json.loads(path.read_text())] if path.exists() else [own]


@pytest.mark.parametrize("value", _lone_surrogates())
def test_ot16_a_cut_emoji_comes_back_and_sql_still_works(value: dict[str, object]) -> None:
    for kept in (value, value["content"], ValueError(value["content"]), (value,), {"a\\ud83d": "\\\ud83d\\ud83d"}):
        payload = encode(kept, strict=True)
        payload.text.encode("utf-8")
        back = decode(payload)
        assert repr(back) == repr(kept)
        assert orjson.dumps(orjson.loads(payload.text)) == payload.text.encode()
        assert duckdb.execute("select json_valid(?), json_type(?::JSON)", [payload.text] * 2).fetchone() is not None
    text = encode(value).text
    assert duckdb.execute("select json_valid(?)", [text]).fetchone() == (True,)
    assert duckdb.execute("select json_extract_string(?::JSON, '$.v[0][1]')", [text]).fetchone() == ("user",)
