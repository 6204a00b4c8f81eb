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
from otel_replay.crossing import Crossing
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
        self._scans: dict[tuple[str, str], Callable[[bytes], bool] | None] = {}
        run_name = orjson.dumps(run.name)
        self._run = f',"run_id":{_quoted(run.run_id)},"run_name":{run_name.decode()}'
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

    def written(self, crossing: Crossing) -> Written | None:
        """Return what to write of an ended crossing; None where it is for the plain way."""
        outcome, request, redo = crossing.outcome, crossing.request, crossing._redo
        if (
            outcome is None
            or outcome.kind != "returned"
            or crossing.kind not in _KINDS
            or crossing.changed is not None
            or crossing.notes
            or crossing.spec.pins is not None
            or not crossing.spec.mutable_arguments  # its request may have changed since, for all that is known
            or request.encoding != "json"
            or outcome.value.encoding != "json"
            or request.reason
            or outcome.value.reason
            or len(request.text) + len(outcome.value.text) > self._bytes_max
            or (redo is None and "key" not in crossing.facts)
            or crossing.facts.get("mode", "record") not in _MODES
            or "attempts" in crossing.facts
        ):
            return None
        name = (crossing.kind, crossing.name)
        scan = self._scans.get(name)
        if scan is None:
            scan = self._scans[name] = self._redactor.scan((self._rules_for(*name).scan,)) or _always
        asked, answered = request.text.encode(), outcome.value.text.encode()
        everything = b"".join((asked, BETWEEN, answered, self._scanned_name))
        if scan(everything) or (self._known.regex is not None and self._known.regex.search(everything)):
            return None
        key = str(crossing.facts["key"]) if redo is None else plain_key(redo())
        content = ascii_text(self._content(crossing)).encode("ascii")
        hashed = sha256(content)
        total = int.from_bytes(hashed.digest(), "big")
        rest = ascii_text(self._rest(crossing, key)).encode("ascii")
        hashed.update(rest)
        data = content + rest
        return Written(data, hashed.hexdigest(), key, total) if len(data) <= self._bytes_max else None

    def _content(self, crossing: Crossing) -> str:
        """Return what `jsonform.content_json` writes."""
        parent, outcome = crossing.parent, crossing.outcome
        assert outcome is not None
        beneath = f',"parent":{_quoted(parent.address)}' if parent is not None else ""
        strand = f',"strand":{crossing.strand.number}' if crossing.strand.number else ""
        if crossing.strand.place:
            strand += f',"place":"{crossing.strand.place}"'  # dots and digits
        return (
            f'{{"address":{_quoted(crossing.address)}{beneath},"boundary":{_quoted(crossing.name)}'
            f',"kind":"{crossing.kind}"{strand},"seq":{crossing.seq},"end_seq":{crossing.end_seq}'
            f',"request":{{"json":{crossing.request.text}}}'
            f',"outcome":{{"kind":"returned","value":{{"json":{outcome.value.text}}}}}'
        )

    def _rest(self, crossing: Crossing, key: str) -> str:
        """Return what `jsonform.envelope_to_json` writes after it."""
        effects = ',"side_effects":true' if crossing.spec.side_effects else ""
        mode = ',"mode":"stub"' if crossing.facts.get("mode") == "stub" else ""
        return (
            f'{self._run}{mode},"start_ns":{crossing.start_ns},"end_ns":{crossing.end_ns},"key":"{key}"{effects}'
            f',"schema":{semconv.SCHEMA_VERSION}}}'
        )

    def attributes(self, crossing: Crossing, written: Written) -> dict[str, object]:
        """Return what `codec.to_attributes` does."""
        outcome = crossing.outcome
        assert outcome is not None
        found = self._common.copy()
        found[semconv.ADDRESS] = crossing.address
        found[semconv.STRAND] = crossing.strand.number
        found[semconv.SEQ] = crossing.seq
        found[semconv.END_SEQ] = crossing.end_seq
        found[semconv.BOUNDARY] = crossing.name
        found[semconv.KIND] = crossing.kind
        found[semconv.MODE] = crossing.facts.get("mode", "record")
        found[semconv.OUTCOME] = "returned"
        found[semconv.KEY] = written.key
        if crossing.kind == "tool":
            found[semconv.GEN_AI_OPERATION] = "execute_tool"
            found[semconv.GEN_AI_TOOL_NAME] = crossing.name
            found[semconv.GEN_AI_TOOL_ARGUMENTS] = codec.readable(_plain_text(crossing.request.text))
            found[semconv.GEN_AI_TOOL_RESULT] = codec.readable(_plain_text(outcome.value.text))
        text, size = written.data.decode("ascii"), self._part_bytes
        found[semconv.ENVELOPE_ENCODING] = "json"
        found[semconv.ENVELOPE_BYTES] = len(text)
        found[semconv.ENVELOPE_SHA256] = written.sha256
        found[semconv.ENVELOPE] = tuple([text[at : at + size] for at in range(0, len(text), size)])
        return found


def _always(_raw: bytes) -> bool:
    return True


def _quoted(text: str) -> str:
    return orjson.dumps(text).decode()


def _plain_text(text: str) -> str:
    """Return a JSON text as people read it: a string stands without its quotes."""
    return str(orjson.loads(text)) if text.startswith('"') else text
