"""The report of a replay: one object, rendered as text, JSON, JUnit and HTML.

Of a full replay it is byte-identical over repetitions: recorded order, no clock, no id of this run, no machine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import orjson

from otel_replay.changes import FieldChange
from otel_replay.errors import (
    Diverged,
    ImportFault,
    IncompleteRecording,
    NeverRecorded,
    NothingCompared,
    ReplayError,
    StoreError,
    UsageError,
)
from otel_replay.readable import untagged
from otel_replay.replay.divergence import field_text, short
from otel_replay.replay.pins import PinChange

EXIT_OK = 0
EXIT_ASSERTION = 1
EXIT_USAGE = 2
EXIT_DIVERGED = 3
EXIT_NEVER_RECORDED = 4
EXIT_INCOMPLETE = 5
EXIT_NOTHING_COMPARED = 6
EXIT_PASSED_ON_DRIFT = 7
"""Only under --strict."""
EXIT_UNUSABLE = 8
"""A store, folder or file could not be used."""

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Source: W3C, Extensible Markup Language 1.0, production Char."""

_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""What a terminal would obey rather than show."""
_PRETTY = orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2

_SECTIONS = (
    "served",
    "repeated",
    "live",
    "overridden",
    "opened",
    "new",
    "drifted",
    "extra",
    "reordered",
    "unused",
    "not reached",
    "covered",
)


@dataclass(frozen=True, slots=True)
class Line:
    """One crossing in the report: what became of it, and how it differs from the record."""

    section: str
    address: str
    recorded: str = ""
    now: str = ""
    fields: tuple[FieldChange, ...] = ()
    note: str = ""

    def as_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"address": self.address}
        if self.recorded:
            found["recorded"] = self.recorded
        if self.now:
            found["now"] = self.now
        if self.fields:
            found["fields"] = [
                {"path": f.path, "recorded": untagged(f.recorded), "now": untagged(f.now)} for f in self.fields
            ]
        if self.note:
            found["note"] = self.note
        return found


@dataclass(frozen=True, slots=True)
class Report:
    """What a replay did. `verdict` is passed, passed on drift, failed (an assertion), or diverged."""

    source: str
    verdict: str
    lines: tuple[Line, ...]
    recorded: int
    error: str = ""
    cause: str = ""
    next_steps: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    pins: tuple[PinChange, ...] = ()
    """What explains an outcome and is not as recorded: no fault."""
    interception: str = "not guarded"

    def count(self, section: str) -> int:
        return sum(1 for line in self.lines if line.section == section)

    @property
    def compared(self) -> int:
        """How many recorded crossings the run met."""
        return sum(self.count(section) for section in ("served", "live", "overridden", "opened"))

    def counts(self) -> Mapping[str, int]:
        return {section: self.count(section) for section in _SECTIONS if self.count(section)}

    def text(self) -> str:
        """Return the report for people."""
        listed = ", ".join(f"{count} {section}" for section, count in self.counts().items()) or "nothing crossed"
        rows = [f"replay of {self.source}: {self.verdict.upper()}", f"  {self.recorded} recorded: {listed}"]
        for section in _SECTIONS:
            rows += [_row(line) for line in self.lines if line.section == section and _worth_a_row(line)]
        rows += [f"  pin {change}" for change in self.pins]
        rows += [f"  note: {note}" for note in self.notes]
        if self.error:
            rows.append(f"  {self.cause or 'error'}: {self.error}")
        rows += [f"  next: {step}" for step in self.next_steps]
        rows.append(f"  network: {self.interception}")
        return _writable(_UNSEEN.sub(lambda found: ascii(found.group())[1:-1], "\n".join(rows))) + "\n"

    def json(self) -> str:
        """Return the report as JSON with sorted keys, ending in a newline."""
        form = {
            "schema": 1,
            "source": self.source,
            "verdict": self.verdict,
            "recorded": self.recorded,
            "counts": dict(self.counts()),
            "crossings": {
                section: [line.as_json() for line in self.lines if line.section == section]
                for section in _SECTIONS
                if self.count(section)
            },
            "error": self.error,
            "cause": self.cause,
            "next": list(self.next_steps),
            "notes": list(self.notes),
            "pins": [change.as_json() for change in self.pins],
            "interception": self.interception,
        }
        try:
            return orjson.dumps(form, option=_PRETTY).decode() + "\n"
        except TypeError:
            return orjson.dumps(_written_out(form), option=_PRETTY).decode() + "\n"

    def junit(self) -> str:
        """Return the report as one JUnit test case."""
        failed = self.verdict not in ("passed", "passed on drift")
        rows = [
            '<?xml version="1.0" encoding="UTF-8"?>',
            f'<testsuite name="otel_replay" tests="1" failures="{int(failed)}">',
            f'  <testcase classname="otel_replay" name={quoteattr(self.source)}>',
        ]
        if failed:
            rows.append(f"    <failure message={quoteattr(self.cause or self.verdict)}>{escape(self.error)}</failure>")
        if self.verdict == "passed on drift":
            rows.append('    <properties><property name="verdict" value="passed on drift"/></properties>')
        rows += [f"    <system-out>{escape(self.text())}</system-out>", "  </testcase>", "</testsuite>"]
        return _NOT_IN_XML.sub(lambda found: ascii(found.group())[1:-1], "\n".join(rows)) + "\n"

    def html(self) -> str:
        """Return the report as one HTML page that stands alone: no script, nothing to fetch."""
        from otel_replay.replay.page import page_of

        return page_of(self)

    def forms(self) -> dict[str, str]:
        """Return the report in each of its forms, by name: text, json, junit, html."""
        return {"text": self.text(), "json": self.json(), "junit": self.junit(), "html": self.html()}

    def exit_code(self, *, strict: bool = False) -> int:
        """Return the exit code that tells failed assertion, divergence and nothing compared apart."""
        if self.verdict == "passed on drift":
            return EXIT_PASSED_ON_DRIFT if strict else EXIT_OK
        return {
            "passed": EXIT_OK,
            "failed": EXIT_ASSERTION,
            "diverged": EXIT_DIVERGED,
            "nothing compared": EXIT_NOTHING_COMPARED,
        }[self.verdict]


def _writable(text: str) -> str:
    """Return `text` with halves of surrogate pairs, which no file can hold, written out."""
    return text.encode("utf-8", "backslashreplace").decode()


def _written_out(node: object) -> object:
    """Return a tree in which JSON can be written: what it has no form for stands as text."""
    if isinstance(node, dict):
        return {_writable(str(key)): _written_out(item) for key, item in node.items()}
    if isinstance(node, (list, tuple)):
        return [_written_out(item) for item in node]
    if isinstance(node, str):
        return _writable(node)
    return node if node is None or isinstance(node, (bool, float)) else _small(node)


def _small(node: object) -> object:
    return node if isinstance(node, int) and -(1 << 63) <= node < 1 << 64 else repr(node)


def _worth_a_row(line: Line) -> bool:
    return line.section not in ("served", "covered") or bool(line.fields or line.note)


def _row(line: Line) -> str:
    row = f"  {line.section}: {line.address}"
    if line.recorded or line.now:
        row += f": recorded {line.recorded or 'nothing'}, now {line.now or 'nothing'}"
    if line.fields:
        row += "; " + "; ".join(field_text(change) for change in line.fields[:3])
    return f"{row} ({line.note})" if line.note else row


def exit_code_of(error: BaseException) -> int:
    """Return the exit code for an error that ended a replay."""
    for kind, code in (
        (NothingCompared, EXIT_NOTHING_COMPARED),
        (NeverRecorded, EXIT_NEVER_RECORDED),
        (IncompleteRecording, EXIT_INCOMPLETE),
        (Diverged, EXIT_DIVERGED),
        (ReplayError, EXIT_DIVERGED),
        (UsageError, EXIT_USAGE),
        (ImportFault, EXIT_NEVER_RECORDED),
        (StoreError, EXIT_UNUSABLE),
    ):
        if isinstance(error, kind):
            return code
    return EXIT_ASSERTION


def brief(value: object) -> str:
    """Return an outcome's value as one short text."""
    return short(value)
