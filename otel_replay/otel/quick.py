"""The common crossing written in one go: plain values in and out, nothing to redact, no rule that touches its key.

It gives the same bytes as the plain way (envelope, redaction, key, JSON form, attributes), for a fraction of the
cost: the request is sorted from the live value instead of parsed again, one scan sees both payloads, and no envelope
is built. Whatever is not quite common is left to the plain way, and so is anything that fails here.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import NamedTuple

import orjson

from otel_replay import codec, limits, semconv
from otel_replay.crossing import Crossing, Spec
from otel_replay.envelope import Run
from otel_replay.fingerprint import plain_key
from otel_replay.jsonform import ascii_text
from otel_replay.match_rules import MatchRules
from otel_replay.redaction import BETWEEN, Known, Redactor

_KINDS = frozenset({"tool", "router", "custom", "clock", "random"})
"""Model and transport calls have messages, tokens and status codes to show: the plain way reads them."""
_MODES = frozenset({"record", "stub"})


class Written(NamedTuple):
    """A crossing's JSON form as ASCII, its SHA-256 in hex, its key, and what it adds to the digest of the run."""

    data: bytes
    sha256: str
    key: str
    term: int


class _Named:
    """What is the same for all crossings of one boundary in one run."""

    __slots__ = ("attributes", "named", "scan", "side_effects", "tool")

    def __init__(self, spec: Spec, scan: Callable[[bytes], bool], common: dict[str, object]) -> None:
        self.scan = scan
        self.tool = spec.kind == "tool"
        self.named = ascii_text(f',"boundary":{_quoted(spec.name)},"kind":"{spec.kind}"')
        self.side_effects = ',"side_effects":true' if spec.side_effects else ""
        self.attributes: dict[str, object] = {  # in the order of `codec.to_attributes`: what is None here differs
            **common,
            semconv.ADDRESS: None,
            semconv.STRAND: None,
            semconv.SEQ: None,
            semconv.END_SEQ: None,
            semconv.BOUNDARY: spec.name,
            semconv.KIND: spec.kind,
            semconv.MODE: "record",
            semconv.OUTCOME: "returned",
            semconv.KEY: None,
        }
        if self.tool:
            self.attributes[semconv.GEN_AI_OPERATION] = "execute_tool"
            self.attributes[semconv.GEN_AI_TOOL_NAME] = spec.name
            self.attributes[semconv.GEN_AI_TOOL_ARGUMENTS] = None
            self.attributes[semconv.GEN_AI_TOOL_RESULT] = None
        self.attributes[semconv.ENVELOPE_ENCODING] = "json"


class Quick:
    """Writes the common crossings of one lane."""

    def __init__(
        self, run: Run, redactor: Redactor, known: Known, rules_for: Callable[[str, str], MatchRules], part_bytes: int
    ) -> None:
        self._redactor = redactor
        self._known = known
        self._rules_for = rules_for
        self._part_bytes = part_bytes
        self._bytes_max = min(
            limits.ENVELOPE_ATTRIBUTE_BYTES_MAX // part_bytes * part_bytes, limits.BLOB_THRESHOLD_BYTES
        )
        self._named: dict[Spec, _Named | None] = {}
        run_name = orjson.dumps(run.name)
        self._run = ascii_text(f',"run_id":{_quoted(run.run_id)},"run_name":{run_name.decode()}')
        self._scanned_name = BETWEEN + run_name
        self._common: dict[str, object] = {
            semconv.SCHEMA: semconv.SCHEMA_VERSION,
            semconv.RUN_ID: run.run_id,
            semconv.RUN_NAME: run.name,
        }

    @classmethod
    def of(
        cls, run: Run, redactor: Redactor, known: Known, rules_for: Callable[[str, str], MatchRules], part_bytes: int
    ) -> Quick | None:
        """Return the quick way of a run; None for a lane, a run without a name, and under a very short value limit."""
        if run.lane or not run.name or part_bytes < 64:
            return None
        return cls(run, redactor, known, rules_for, part_bytes)

    def _name(self, spec: Spec) -> _Named | None:
        """Return what crossings of this boundary have in common; None where they are for the plain way."""
        if (
            spec.kind not in _KINDS
            or spec.pins is not None
            or not spec.mutable_arguments  # its request may have changed since, for all that is known
        ):
            return None
        scan = self._redactor.scan((self._rules_for(spec.kind, spec.name).scan,))
        return _Named(spec, scan, self._common) if scan is not None else None

    def written(self, crossing: Crossing) -> Written | None:
        """Return what to write of an ended crossing; None where it is for the plain way."""
        asked, answered, facts = crossing.asked, crossing.answered, crossing.facts
        if (
            asked is None
            or answered is None
            or crossing.changed is not None
            or crossing.notes
            or len(asked) + len(answered) > self._bytes_max
            or "attempts" in facts
        ):
            return None
        spec = crossing.spec
        if spec not in self._named:
            self._named[spec] = self._name(spec)
        named = self._named[spec]
        if named is None:
            return None
        everything = b"".join((asked, BETWEEN, answered, self._scanned_name))
        if named.scan(everything) or (self._known.regex is not None and self._known.regex.search(everything)):
            return None
        mode = facts.get("mode", "record")
        key = plain_key(crossing.live) if crossing.live is not None else facts.get("key")
        if key is None or mode not in _MODES:
            return None
        # The order is that of jsonform.py: first what the run's digest covers, then what is another on each run.
        content = b"".join((self._place(crossing, named), asked, _ANSWER, answered, b"}}"))
        if not content.isascii():
            content = ascii_text(content.decode()).encode("ascii")
        hashed = sha256(content)
        term = int.from_bytes(hashed.digest(), "big")
        rest = (
            f'{self._run}{_MODE_STUB if mode == "stub" else ""},"start_ns":{crossing.start_ns}'
            f',"end_ns":{crossing.end_ns},"key":"{key}"{named.side_effects}{_SCHEMA}'
        ).encode("ascii")
        hashed.update(rest)
        data = content + rest
        return Written(data, hashed.hexdigest(), str(key), term) if len(data) <= self._bytes_max else None

    @staticmethod
    def _place(crossing: Crossing, named: _Named) -> bytes:
        parent, strand = crossing.parent, crossing.strand
        beneath = f',"parent":{_quoted(parent.address)}' if parent is not None else ""
        line = f',"strand":{strand.number}' if strand.number else ""
        if strand.place:
            line += f',"place":"{strand.place}"'  # dots and digits
        return (
            f'{{"address":{_quoted(crossing.address)}{beneath}{named.named}{line}'
            f',"seq":{crossing.seq},"end_seq":{crossing.end_seq},"request":{{"json":'
        ).encode()

    def attributes(self, crossing: Crossing, written: Written) -> dict[str, object]:
        """Return what `codec.to_attributes` does."""
        named = self._named[crossing.spec]
        assert named is not None
        found = named.attributes.copy()
        found[semconv.ADDRESS] = crossing.address
        found[semconv.STRAND] = crossing.strand.number
        found[semconv.SEQ] = crossing.seq
        found[semconv.END_SEQ] = crossing.end_seq
        if "mode" in crossing.facts:
            found[semconv.MODE] = crossing.facts["mode"]
        found[semconv.KEY] = written.key
        if named.tool:
            found[semconv.GEN_AI_TOOL_ARGUMENTS] = _plain_text(crossing.asked)
            found[semconv.GEN_AI_TOOL_RESULT] = _plain_text(crossing.answered)
        text, size = written.data.decode("ascii"), self._part_bytes
        found[semconv.ENVELOPE_BYTES] = len(text)
        found[semconv.ENVELOPE_SHA256] = written.sha256
        found[semconv.ENVELOPE] = (
            (text,) if len(text) <= size else tuple([text[at : at + size] for at in range(0, len(text), size)])
        )
        return found


_ANSWER = b'},"outcome":{"kind":"returned","value":{"json":'
_MODE_STUB = ',"mode":"stub"'
_SCHEMA = f',"schema":{semconv.SCHEMA_VERSION}}}'


def _quoted(text: str) -> str:
    return orjson.dumps(text).decode()


def _plain_text(json: bytes | None) -> object:
    """Return a JSON text as people read it: a string stands without its quotes."""
    assert json is not None
    return codec.readable(str(orjson.loads(json)) if json[:1] == b'"' else json.decode())
