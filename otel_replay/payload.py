"""Values as text and back: `decode(encode(v)) == v` in value and type, or the reason why `v` is lost.

A payload's text is compact JSON exactly as orjson writes it. Encoding "json" holds JSON types only. Encoding
"typed-json" holds tagged values, objects whose key "$" names the kind:

    (1, "a")                {"$":"tuple","v":[1,"a"]}
    Row(id=1, tags={"x"})   {"$":"dataclass","t":"app.db:Row","v":{"id":1,"tags":{"$":"set","v":["x"]}}}
    {1: "a"}, {"$": 1}      {"$":"dict","v":[[1,"a"]]}, {"$":"dict","v":[["$",1]]}
    nan, 2**70              {"$":"float","v":"nan"}, {"$":"int","v":"1180591620717411303424"}
    a socket                {"$":"lost","t":"socket.socket","reason":"..."}

Objects that stood twice in a value come back as equal copies. A value that contains itself is lost.
"""

from __future__ import annotations

import gc
from math import isfinite
from typing import Any, cast

import orjson

from otel_replay.encodings import arrays, classes, exceptions, http, models, refused, standard, type_objects
from otel_replay.encodings.classes import register
from otel_replay.encodings.core import NODES_MAX, Decoder, Encoder, TooLarge
from otel_replay.encodings.names import allow_packages
from otel_replay.envelope import Payload
from otel_replay.envelope import lost as lost_payload
from otel_replay.errors import Unencodable, Unservable
from otel_replay.limits import PAYLOAD_BYTES_MAX, PAYLOAD_DEPTH_MAX

__all__ = ["allow_packages", "decode", "encode", "plain", "plain_json", "register"]

_FAMILIES = (arrays, classes, exceptions, http, models, refused, standard, type_objects)
_LEAVES = frozenset((str, int, bool, type(None)))
_HOLDERS = frozenset((list, dict))
_PLAIN = _LEAVES | _HOLDERS | {float}
_TOO_LARGE = f"it is larger than {PAYLOAD_BYTES_MAX // 1024 // 1024} MB"


def encode(value: object, *, strict: bool = False) -> Payload:
    """Return the payload of `value`.

    What cannot be kept stands in place as a `lost` tag, and `reason` says the first such part's path and why; a
    value lost as a whole has the encoding "lost". With `strict` a loss raises Unencodable; nothing else is raised.
    """
    raw = plain_json(value)
    payload = Payload("json", raw.decode()) if raw is not None else _slow(value)
    if strict and payload.reason:
        raise Unencodable(payload.reason)
    return payload


def decode(payload: Payload) -> Any:
    """Return the value: equal to the recorded one and of the same type. Raises Unservable, saying what and why."""
    if payload.encoding == "lost":
        raise Unservable(f"the value was not kept: {payload.reason or 'no reason was recorded'}")
    if payload.encoding not in ("json", "typed-json"):
        raise Unservable(f"the value has the unknown encoding {payload.encoding[:60]!r}")
    if len(payload.text) > PAYLOAD_BYTES_MAX:
        raise Unservable(f"the recorded value cannot be read: {_TOO_LARGE}")
    try:
        tree = orjson.loads(payload.text)
        return tree if payload.encoding == "json" else Decoder().value(tree)
    except Unservable as error:
        # The first loss with its path says more than the tag that was met first.
        if payload.reason:
            raise Unservable(f"the value was not kept whole: {payload.reason}") from error
        raise
    except orjson.JSONDecodeError as error:
        raise Unservable(f"the recorded value is not JSON: {error}") from error
    except RecursionError as error:
        raise Unservable("the recorded value is nested too deep to be rebuilt") from error
    except Exception as error:  # a hand-made record may break any constructor
        raise Unservable(f"the recorded value cannot be rebuilt: {type(error).__name__}: {error}") from error


def plain_json(value: object) -> bytes | None:
    """Return the text of a value that is plain JSON all through, as UTF-8; None where `encode` must look closer."""
    try:
        if not _only_plain(value):
            return None
        raw = orjson.dumps(value)  # refuses lone surrogates, longer integers, and keys that are not exactly str
    except (TypeError, ValueError, RuntimeError):  # RuntimeError: another thread changed it while it was read
        return None
    if len(raw) > PAYLOAD_BYTES_MAX or (b"$" in raw and b'"$":' in raw):
        return None
    return raw


def _only_plain(value: Any) -> bool:
    """Return True for a value that is plain JSON all through, keys aside.

    Exact types only: orjson alone writes tuples, enums, UUIDs and NaN without a word as something else. Level by
    level, so that depth and number are bounded also where a value contains itself; and in calls that look at a whole
    level at once, since a loop of our own would cost more than all the rest of the encoding.
    """
    kind = type(value)
    if kind is not dict and kind is not list:
        return kind in _LEAVES or (kind is float and isfinite(value))
    level: list[Any] = gc.get_referents(value)  # what it holds; a dict's keys may be among it
    nodes = 0
    for _ in range(PAYLOAD_DEPTH_MAX):
        nodes += len(level)
        kinds = set(map(type, level))
        if kinds <= _LEAVES:
            return nodes <= NODES_MAX
        if nodes > NODES_MAX or not kinds <= _PLAIN:
            return False
        if kinds <= _HOLDERS:
            level = gc.get_referents(*level)
            continue
        if float in kinds and not all(map(isfinite, [item for item in level if type(item) is float])):
            return False
        level = gc.get_referents(*[item for item in level if type(item) in _HOLDERS])
    return False


def _slow(value: object) -> Payload:
    encoder = Encoder()
    try:
        tree = encoder.value(value)
        if encoder.reason and type(tree) is dict and tree.get("$") == "lost":
            return lost_payload(encoder.reason)
        text = orjson.dumps(tree)
    except TooLarge:
        return lost_payload(_TOO_LARGE)
    except Exception as error:  # noqa: BLE001 - recording may fail, the agent may not
        return lost_payload(f"encoding it raised {type(error).__name__}")
    if len(text) > PAYLOAD_BYTES_MAX:
        return lost_payload(f"{_TOO_LARGE} ({len(text)} bytes)")
    return Payload("typed-json" if encoder.tagged else "json", text.decode(), encoder.reason)


# For people ------------------------------------------------------------------------------------------------


def plain(payload: Payload) -> Any:
    """Return a JSON tree without tags for reading, SQL and diffs. Not the value: kinds are gone and never come back.

    A tagged value becomes its readable inner part, a lost one the text "<lost: reason>". Looks up no class.
    """
    if payload.lost:
        return f"<lost: {payload.reason}>"
    tree = payload.tree()
    return _bare(tree) if payload.encoding == "typed-json" else tree


def _bare(tree: Any) -> Any:
    if type(tree) is list:
        return [_bare(item) for item in tree]
    if type(tree) is not dict:
        return tree
    tag = tree.get("$")
    if tag is None:
        return {key: _bare(item) for key, item in tree.items()}
    if tag == "lost":
        return f"<lost: {tree.get('reason')}>"
    if tag == "dict" and type(tree.get("v")) is list:
        pairs = [pair for pair in cast("list[Any]", tree["v"]) if type(pair) is list and len(pair) == 2]
        return {_key(_bare(key)): _bare(item) for key, item in pairs}
    for inner in ("v", "text", "base64"):
        if inner in tree:
            return _bare(tree[inner])
    shown = {key: _bare(item) for key, item in tree.items() if key != "$"}
    return shown.get("t", shown) if set(shown) <= {"t"} else {"type": shown.pop("t", tag), **shown}


def _key(key: object) -> str:
    return key if type(key) is str else orjson.dumps(key).decode()
