"""The law of values: `decode(encode(v))` is `v` in value and type, and the text is what orjson writes."""

from __future__ import annotations

import datetime as dt
import decimal
import fractions
import math
import pathlib
import re
import types
import uuid
import zoneinfo
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable

import duckdb
import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otel_replay import payload as payload_module
from otel_replay.envelope import Payload
from otel_replay.limits import PAYLOAD_DEPTH_MAX
from otel_replay.payload import decode, encode, plain
from tests.payload import kinds
from tests.payload.kinds import same

TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=8) | st.sampled_from(
    ["$", "v", "\\ud83d", "\ud83d", "\\", "\x00", "\udc00\ud83d", "\U0001f600", '"$":', "null"]
)
ZONES = st.sampled_from(
    [None, dt.UTC, dt.timezone(dt.timedelta(hours=-3, seconds=7)), dt.timezone(dt.timedelta(0), "Here"),
     dt.timezone(dt.timedelta(hours=1), "UTC+01:00"), zoneinfo.ZoneInfo("Europe/Berlin")]
)  # fmt: skip
INTEGERS = st.integers() | st.sampled_from([2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**900])
JSON_LEAVES = st.none() | st.booleans() | INTEGERS | st.floats(allow_nan=True) | TEXT
HASHABLE = st.one_of(
    JSON_LEAVES,
    st.binary(max_size=6),
    st.complex_numbers(allow_nan=True),
    st.decimals().filter(lambda d: not d.is_snan()),  # that one has no hash
    st.fractions(),
    st.uuids(),
    st.datetimes(timezones=ZONES, allow_imaginary=True),
    st.builds(lambda t, z, f: t.replace(tzinfo=z, fold=f), st.times(), ZONES, st.integers(0, 1)),
    st.builds(lambda t, f: t.replace(fold=f), st.datetimes(), st.integers(0, 1)),
    st.dates(),
    st.timedeltas(),
    st.sampled_from([dt.UTC, zoneinfo.ZoneInfo("Asia/Tokyo"), ..., NotImplemented, range(1, 9, 2), range(0)]),
    st.sampled_from(
        [*kinds.Colour, *kinds.Level, *kinds.Word, *kinds.Right, kinds.Right(3), kinds.Right(0), kinds.Bits(7)]
    ),
    st.sampled_from(
        [
            int,
            type(None),
            dict,
            kinds.Row,
            kinds.AppError,
            ValueError,
            len,
            kinds.same,
            list[int],
            int | None,
            kinds.OPTIONAL,
        ]
    ),
    st.builds(pathlib.PurePosixPath, TEXT),
    st.builds(pathlib.PureWindowsPath, st.text(max_size=5)),
    st.builds(pathlib.Path, st.text(max_size=5)),
    st.builds(re.compile, st.sampled_from(["a+", b"\xff", "(?i)x"]), st.sampled_from([0, re.DOTALL])),
    st.builds(kinds.Text, TEXT),
    st.builds(kinds.Number, INTEGERS),
    st.builds(kinds.Real, st.floats()),
    st.builds(kinds.Raw, st.binary(max_size=4)),
    st.builds(lambda d: kinds.Moment(d.year, d.month, d.day, 1, 2, 3, 4, d.tzinfo), st.datetimes(timezones=ZONES)),
    st.builds(lambda d: kinds.Day(d.year, d.month, d.day), st.dates()),
    st.builds(kinds.Place, st.text(max_size=5)),
)


def below(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    lists = st.lists(inner, max_size=3)
    named = st.dictionaries(st.sampled_from(["a", "b", "$", "c d"]), inner, max_size=3)
    mixed = st.dictionaries(HASHABLE, inner, max_size=3)
    return st.one_of(
        lists,
        named,
        mixed,
        lists.map(tuple),
        st.dictionaries(TEXT, inner, max_size=3),
        st.sets(HASHABLE, max_size=3),
        st.frozensets(HASHABLE, max_size=3),
        st.binary(max_size=6).map(bytearray),
        st.builds(slice, inner, inner),
        st.builds(OrderedDict, mixed),
        st.builds(Counter, mixed.map(lambda d: dict.fromkeys(d, 1))),
        st.builds(defaultdict, st.sampled_from([None, list, int]), mixed),
        st.builds(deque, lists, st.sampled_from([None, 5])),
        st.builds(types.MappingProxyType, named),
        st.builds(lambda d: types.SimpleNamespace(**d), named),
        st.builds(kinds.Point, inner, inner),
        st.builds(kinds.Row, inner, inner, inner),
        st.builds(kinds.Frozen, inner),
        st.builds(lambda a, b: kinds.with_state(kinds.Named(a), s=b), inner, inner),
        st.builds(kinds.Slim, inner, inner),
        st.builds(kinds.Rigid, inner),
        st.builds(kinds.Model, x=inner, extra_field=inner),
        st.builds(lambda a: kinds.Model.model_construct(x=a), inner),
        st.builds(lambda a: kinds.Box[object](item=a), inner),
        st.builds(lambda a, b: kinds.with_state(kinds.Items(a), note=b), lists, inner),
        st.builds(kinds.Table, mixed),
        st.builds(kinds.Pair, lists),
        st.builds(kinds.Group, st.sets(HASHABLE, max_size=3)),
        st.builds(kinds.Ordered, mixed),
        st.builds(kinds.Default, st.just(list), mixed),
        st.builds(kinds.Queue, lists, st.just(4)),
        st.builds(kinds.Tally, st.lists(st.booleans(), max_size=4)),
        st.builds(ValueError, inner, inner),
        st.builds(lambda a, b: kinds.AppError(a, detail=b), inner, inner),
    )


VALUES = st.recursive(HASHABLE, below, max_leaves=8)
JSON_VALUES = st.recursive(
    JSON_LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4), max_leaves=12
)
LAW = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def check_form(payload: Payload) -> None:
    assert orjson.dumps(orjson.loads(payload.text)) == payload.text.encode()
    orjson.dumps(plain(payload))


def has_tag(tree: object) -> bool:
    inner = tree if isinstance(tree, list) else tree.values() if isinstance(tree, dict) else ()
    return (isinstance(tree, dict) and "$" in tree) or any(map(has_tag, inner))


@LAW
@given(VALUES)
def test_a_value_comes_back_in_value_and_type(value: object) -> None:
    payload = encode(value, strict=True)
    check_form(payload)
    assert same(decode(payload), value)
    assert encode(decode(payload)) == payload


@LAW
@given(JSON_VALUES)
def test_the_fast_and_the_slow_way_agree(value: object) -> None:
    payload = encode(value, strict=True)
    check_form(payload)
    assert payload == payload_module._slow(value)
    assert same(decode(payload), value)
    assert (payload.encoding == "typed-json") == has_tag(orjson.loads(payload.text))


NOT_PLAIN = [
    (1,), {1}, math.nan, math.inf, 2**64, "\ud83d", kinds.Colour.RED, kinds.Level.LOW, kinds.Word.HELLO,
    uuid.UUID(int=1),
    dt.datetime(2026, 1, 1), dt.date(2026, 1, 1), kinds.Text("a"), kinds.Number(1), kinds.Items([1]), kinds.Table({}),
    kinds.Row(1), {1: 1}, {"$": 1}, {kinds.Word.HELLO: 1}, {kinds.Text("k"): 1},
    {"a": {"$": "tuple", "v": []}}, {None: 1},
]  # fmt: skip


@pytest.mark.parametrize("odd", NOT_PLAIN, ids=ascii)
def test_nothing_slips_through_the_fast_way(odd: object) -> None:
    for value in (odd, [odd], [1, odd, "x"], {"a": odd}, {"a": [{"b": [odd]}, 1.5]}, [[], {}, [[odd]]]):
        payload = encode(value, strict=True)
        assert payload.encoding == "typed-json"
        assert same(decode(payload), value)


@settings(max_examples=30, deadline=None)
@given(VALUES)
def test_pq09_the_text_is_json_for_the_database(value: object) -> None:
    assert duckdb.execute("select json_valid(?)", [encode(value).text]).fetchone() == (True,)


def nested(levels: int) -> object:
    value: object = []
    for _ in range(levels - 1):
        value = [value]
    return value


@pytest.mark.parametrize("wrap", [lambda v: v, lambda v: {"a": v}, lambda v: [v, {1}]])
def test_depth_is_bounded_alike_on_both_ways(wrap: Callable[[object], object]) -> None:
    fits, deep = wrap(nested(PAYLOAD_DEPTH_MAX - 3)), wrap(nested(PAYLOAD_DEPTH_MAX + 1))
    assert encode(fits) == payload_module._slow(fits)
    assert same(decode(encode(fits, strict=True)), fits)
    assert "deeper" in encode(deep).reason
    check_form(encode(deep))


def test_hopeless_depth_neither_raises_nor_hangs() -> None:
    for wrap in (lambda v: [v], lambda v: (v,), lambda v: {1: v}, lambda v: kinds.Row(v), lambda v: ValueError(v)):
        value: object = None
        for _ in range(5_000):
            value = wrap(value)
        payload = encode(value)
        assert "deeper" in payload.reason
        check_form(payload)


def test_shared_parts_that_grow_without_end_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payload_module, "NODES_MAX", 10_000)
    monkeypatch.setattr("otel_replay.encodings.core.NODES_MAX", 10_000)
    value: object = []
    for _ in range(100):
        value = [value, value]
    assert "larger than" in encode(value).reason
    assert "larger than" in encode((value,)).reason


def test_a_text_past_the_limit_is_lost_with_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payload_module, "PAYLOAD_BYTES_MAX", 100)
    for value in ("x" * 200, ("x" * 200,)):
        assert "bytes" in encode(value).reason
        assert encode(value).lost


def test_im18_nan_keeps_its_sign_and_integers_their_length() -> None:
    assert math.copysign(1, decode(encode(-math.nan))) == -1
    assert decode(encode(-(7**20_000))) == -(7**20_000)


def test_the_record_of_a_set_does_not_depend_on_its_order() -> None:
    assert encode({"b", "a", "c"}).text == '{"$":"set","v":["a","b","c"]}'


def test_the_text_is_readable() -> None:
    value = {"row": kinds.Row(1, {"x"}), "when": dt.datetime(2026, 1, 2), "body": b"{}", 1: decimal.Decimal("0.10")}
    assert encode(value["row"]).text == (
        '{"$":"dataclass","t":"tests.payload.kinds:Row","v":{"id":1,"tags":{"$":"set","v":["x"]},"seen":null}}'
    )
    assert plain(encode(value)) == {
        "row": {"id": 1, "tags": ["x"], "seen": None}, "when": "2026-01-02T00:00:00", "body": "{}", "1": "0.10"
    }  # fmt: skip
    assert plain(encode([fractions.Fraction(1, 3), uuid.UUID(int=1), lambda: 1])) == [
        [1, 3],
        "00000000-0000-0000-0000-000000000001",
        "<lost: a lambda or a function inside a function cannot be found again by name, so it is not kept>",
    ]


def test_no_code_of_the_class_runs_when_a_value_is_rebuilt() -> None:
    payload = encode(kinds.Loud({"a": 1}))
    kinds.Loud.armed = True
    try:
        assert vars(decode(payload)) == {"value": {"a": 1}}
    finally:
        kinds.Loud.armed = False


def test_encoding_changes_nothing_and_warns_of_nothing(recwarn: pytest.WarningsRecorder) -> None:
    model = kinds.Model(x=1)
    model.x = kinds.Box[int](item=1)
    before = (dict(vars(model)), set(model.model_fields_set))
    back = decode(encode(model, strict=True))
    assert (vars(model), model.model_fields_set) == before
    assert type(back.x) is kinds.Box[int]
    assert not recwarn.list
