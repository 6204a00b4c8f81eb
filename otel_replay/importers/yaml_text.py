"""Cassettes in YAML, read without trusting them: no object is made of a tag, aliases cannot multiply, depth is bounded.

Works on the parser's events, one list element at a time, so that a large cassette is read in bounded memory. Only what
vcrpy writes for plain values is known: text, numbers, null, true and false, `!!binary`. Source: YAML 1.1, and vcrpy
`serializers/yamlserializer.py`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Any, BinaryIO

from otel_replay.errors import ImportFault
from otel_replay.importers.result import Report
from otel_replay.limits import IMPORT_DEPTH_MAX, IMPORT_SPAN_BYTES_MAX

LISTS = ("interactions", "http_interactions")
"""Under which key the exchanges stand: vcrpy's, and Ruby's VCR."""
_ANCHORS_MAX = 100_000
_NODE_BYTES = 64
_CORE = "tag:yaml.org,2002:"
_TEXT_TAGS = ("str", "python/str", "python/unicode")
_LIST_TAGS = ("seq", "python/tuple")
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,18})\Z")
_FLOAT = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?\Z")
_WORDS = {"": None, "~": None, "null": None, "Null": None, "NULL": None, "true": True, "True": True, "TRUE": True,
          "false": False, "False": False, "FALSE": False}  # fmt: skip
_BEGINS = re.compile(
    r"(?:\s*(?:%YAML[^\n]*|---[^\n]*|#[^\n]*)?\r?\n)*[ ]*(?:(?:interactions|http_interactions|version|metadata"
    r"|recorded_with)[ ]*:|-[ ]+(?:!!\S+[ ]+)?request[ ]*:)"
)


def begins_cassette(head: bytes) -> bool:
    """True where a file that begins with `head` is a cassette in YAML, in UTF-8 or UTF-16."""
    coding = "utf-16" if head[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    return _BEGINS.match(head.decode(coding, "replace")) is not None


def interactions(file: BinaryIO, report: Report) -> Iterator[Any]:
    """Hand out the elements of the cassette's list as plain values, first to last.

    What breaks off in its middle is told to the report. Raises ImportFault where it is no YAML, names a tag of a
    programming language, or passes a bound.
    """
    try:
        import yaml
    except ImportError:
        raise ImportFault("reading YAML needs PyYAML. Next: pip install 'otel-replay[vcr]'") from None
    count = 0
    try:
        for value in _Reader(yaml, file).elements():
            count += 1
            yield value
    except yaml.YAMLError as fault:
        told = " ".join(str(fault).split())[:300]
        if not count:
            raise ImportFault(f"this is not YAML: {told}") from None
        report.problem("partial", f"the YAML breaks off after {count} exchanges: {told}")
    except (UnicodeDecodeError, RecursionError) as fault:
        raise ImportFault(f"this is not YAML: {fault}") from None


class _Metered:
    """The file, with no more than one value's worth of bytes between two events."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.since = 0

    def read(self, size: int = 65_536) -> bytes:
        data = self._file.read(min(max(size, 1), 1024 * 1024))
        self.since += len(data)
        if self.since > IMPORT_SPAN_BYTES_MAX:
            raise ImportFault(f"a value in the YAML is larger than {IMPORT_SPAN_BYTES_MAX} bytes")
        return data


class _Reader:
    def __init__(self, yaml: Any, file: BinaryIO) -> None:
        self._metered = _Metered(file)
        self._yaml = yaml
        self._events = yaml.parse(self._metered, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._weight = 0

    def elements(self) -> Iterator[Any]:
        yaml = self._yaml
        event = self._next()
        while not isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            if isinstance(event, (yaml.ScalarEvent, yaml.StreamEndEvent)):
                raise ImportFault("the YAML holds no list of exchanges")
            event = self._next()
        if isinstance(event, yaml.SequenceStartEvent):
            yield from self._list(event)
            return
        _known_tag(event, ("map",))
        found = False
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            key = self._value(event, 1)
            event = self._next()
            if key in LISTS and isinstance(event, yaml.SequenceStartEvent):
                found = True
                yield from self._list(event)
            else:
                self._weight = 0
                self._value(event, 1)
        if not found:
            raise ImportFault("the YAML holds no list of exchanges")

    def _list(self, opened: Any) -> Iterator[Any]:
        _known_tag(opened, _LIST_TAGS)
        while not isinstance(event := self._next(), self._yaml.SequenceEndEvent):
            self._weight = 0
            yield self._value(event, 2)

    def _next(self) -> Any:
        event = next(self._events, None)
        self._metered.since = 0
        if event is None:
            raise ImportFault("the YAML ends too early")
        return event

    def _value(self, event: Any, depth: int) -> Any:
        yaml = self._yaml
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        before = self._weight
        self._grow(_NODE_BYTES)
        if depth > IMPORT_DEPTH_MAX:
            raise ImportFault(f"the YAML is nested deeper than {IMPORT_DEPTH_MAX}{_place(event)}")
        if isinstance(event, yaml.ScalarEvent):
            self._grow(len(event.value))
            value = _scalar(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            _known_tag(event, _LIST_TAGS)
            value = []
            while not isinstance(inner := self._next(), yaml.SequenceEndEvent):
                value.append(self._value(inner, depth + 1))
        elif isinstance(event, yaml.MappingStartEvent):
            _known_tag(event, ("map",))
            value = self._mapping(depth)
        else:
            raise ImportFault("the YAML holds more than one document, or ends too early")
        if event.anchor is not None:
            if len(self._anchors) >= _ANCHORS_MAX:
                raise ImportFault(f"the YAML has more than {_ANCHORS_MAX} anchors")
            self._anchors[event.anchor] = (value, self._weight - before)
        return value

    def _mapping(self, depth: int) -> dict[str, Any]:
        value: dict[str, Any] = {}
        while not isinstance(inner := self._next(), self._yaml.MappingEndEvent):
            key = self._value(inner, depth + 1)
            if isinstance(key, (dict, list)):
                raise ImportFault(f"the YAML has a key that is no text{_place(inner)}")
            value[str(key)] = self._value(self._next(), depth + 1)
        return value

    def _alias(self, event: Any) -> Any:
        found = self._anchors.get(event.anchor)
        if found is None:
            raise ImportFault(f"the YAML's alias *{event.anchor[:40]} stands for nothing, or for itself{_place(event)}")
        self._grow(found[1])
        return found[0]

    def _grow(self, weight: int) -> None:
        """Count what one exchange holds, each alias as often as it stands."""
        self._weight += weight
        if self._weight > IMPORT_SPAN_BYTES_MAX:
            raise ImportFault(f"an exchange in the YAML is larger than {IMPORT_SPAN_BYTES_MAX} bytes, aliases counted")


def _place(event: Any) -> str:
    return f" at line {event.start_mark.line + 1}" if event.start_mark is not None else ""


def _known_tag(event: Any, names: tuple[str, ...]) -> None:
    if event.tag not in (None, "!", *(_CORE + name for name in names)):
        shown = str(event.tag).replace(_CORE, "!!")
        raise ImportFault(f"the YAML asks for {shown[:80]}{_place(event)}: tags other than plain values are refused")


def _scalar(event: Any) -> Any:
    text: str = event.value
    if event.tag == _CORE + "binary":
        try:
            return base64.b64decode("".join(text.split()), validate=True)
        except (binascii.Error, ValueError):
            raise ImportFault(f"the YAML has a !!binary that is not base64{_place(event)}") from None
    if (event.tag is None and event.implicit[0]) or event.tag in (_CORE + "int", _CORE + "float", _CORE + "bool"):
        return _plain(text)
    if event.tag == _CORE + "null":
        return None
    _known_tag(event, _TEXT_TAGS)
    return text


def _plain(text: str) -> Any:
    """Read a plain scalar; dates, `yes`, `no` and what else YAML 1.1 would guess stay text."""
    if text in _WORDS:
        return _WORDS[text]
    if _INT.match(text):
        return int(text)
    return float(text) if _FLOAT.match(text) else text
