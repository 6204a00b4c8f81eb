"""The report of a replay as one HTML page: a file to open, attach to a ticket, or keep as an artifact of CI.

It stands alone: no script, nothing to fetch, and a policy that forbids both, since what it shows was recorded from
somebody else. Every text goes through `_text`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from otel_replay.changes import FieldChange
from otel_replay.limits import REPORT_PAGE_TEXT_CHARS_MAX
from otel_replay.readable import untagged

if TYPE_CHECKING:
    from otel_replay.replay.report import Line, Report

_UNSEEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, halves of surrogate pairs, and marks that turn the direction of the text after them."""

_STYLE = """
:root{color-scheme:light dark;--ink:#1b1f24;--quiet:#5b6570;--page:#fff;--card:#f5f7f9;--rule:#d8dee4;--good:#116329;
--bad:#a40e26;--warn:#7d4e00;--note:#0a4a8f}
@media (prefers-color-scheme:dark){:root{--ink:#e6edf3;--quiet:#9aa5b1;--page:#0d1117;--card:#161b22;--rule:#30363d;
--good:#56d364;--bad:#ff7b72;--warn:#e3b341;--note:#79c0ff}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:72rem;margin:0 auto;padding:2rem 1.25rem 4rem}
h1{font-size:1.35rem;margin:0;overflow-wrap:anywhere}
h2{font-size:1rem;margin:2rem 0 .5rem}
.verdict{display:inline-block;margin:.4rem 0 .2rem;font-weight:700;letter-spacing:.03em;text-transform:uppercase}
.good{color:var(--good)}.bad{color:var(--bad)}.warn{color:var(--warn)}.note{color:var(--note)}
.quiet,small{color:var(--quiet)}
code,pre,td.value{font:13px/1.45 ui-monospace,monospace}
pre{background:var(--card);border:1px solid var(--rule);border-radius:6px;padding:.7rem .9rem;margin:.4rem 0;
white-space:pre-wrap;overflow-wrap:anywhere}
pre.bad{border-left:4px solid var(--bad);color:inherit}
.wide{overflow-x:auto}
table{border-collapse:collapse;width:100%}
th{text-align:left;font-weight:600;color:var(--quiet)}
th,td{padding:.3rem .6rem;border-bottom:1px solid var(--rule);vertical-align:top}
td.value{overflow-wrap:anywhere;min-width:12rem;white-space:pre-wrap}
td.what{white-space:nowrap}
tr.same td{border-bottom-color:transparent;padding-block:.1rem}
ul{margin:.3rem 0;padding-left:1.2rem}
"""

_TONES = {
    "repeated": "note",
    "live": "note",
    "overridden": "note",
    "new": "note",
    "drifted": "warn",
    "reordered": "warn",
    "extra": "warn",
    "unused": "warn",
}
_VERDICTS = {"passed": "good", "passed on drift": "warn"}


def page_of(report: Report) -> str:
    """Return the page. Equal reports give equal pages, byte for byte."""
    counts = ", ".join(f"{count} {section}" for section, count in report.counts().items()) or "nothing crossed"
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{_text(report.verdict)}: replay of {_text(report.source)}</title>",
        f"<style>{_STYLE}</style></head><body><main>",
        f"<h1>Replay of {_text(report.source)}</h1>",
        f'<p class="verdict {_VERDICTS.get(report.verdict, "bad")}">{_text(report.verdict)}</p>',
        f"<p>{report.recorded} recorded: {_text(counts)}<br>",
        f'<span class="quiet">network: {_text(report.interception)}</span></p>',
    ]
    if report.error:
        parts += [f"<h2>{_text(report.cause or 'Error')}</h2>", f'<pre class="bad">{_text(report.error)}</pre>']
    if report.next_steps:
        parts += ["<h2>Next</h2>", *(f"<pre>{_text(step)}</pre>" for step in report.next_steps)]
    parts += _crossings(report.lines)
    if report.pins:
        rows = [_row(_text(p.name), _text(", ".join(p.at)), _value(p.recorded), _value(p.now)) for p in report.pins]
        parts += ["<h2>Pins that are not as recorded</h2>", *_table("pin", "at", rows)]
    if report.notes:
        parts += ["<h2>Notes</h2>", "<ul>", *(f"<li>{_text(note)}</li>" for note in report.notes), "</ul>"]
    return "\n".join([*parts, "</main></body></html>"]) + "\n"


def _crossings(lines: Iterable[Line]) -> list[str]:
    rows: list[str] = []
    for line in lines:
        name = f"<code>{_text(line.address)}</code>"
        if line.note:
            name += f"<br><small>{_text(line.note)}</small>"
        tone = _TONES.get(line.section, "quiet")
        what = f'<span class="{tone}">{_text(line.section)}</span>'
        plain = not (line.recorded or line.now or line.fields)
        rows.append(_row(what, name, _text(line.recorded), _text(line.now), same=plain))
        rows += map(_field, line.fields)
    return ["<h2>Crossings, in recorded order</h2>", *_table("", "address", rows)] if rows else []


def _field(change: FieldChange) -> str:
    name = f"<code>{_text(change.path)}</code>"
    if change.note:
        name += f"<br><small>{_text(change.note)}</small>"
    return _row("", name, _value(untagged(change.recorded)), _value(untagged(change.now)))


def _table(first: str, second: str, rows: Sequence[str]) -> list[str]:
    heads = "".join(f'<th scope="col">{head}</th>' for head in (first, second, "recorded", "now"))
    return [f'<div class="wide"><table><thead><tr>{heads}</tr></thead><tbody>', *rows, "</tbody></table></div>"]


def _row(what: str, name: str, recorded: str, now: str, *, same: bool = False) -> str:
    quiet = ' class="same"' if same else ""
    cells = f'<td class="value">{recorded}</td><td class="value">{now}</td>'
    return f'<tr{quiet}><td class="what">{what}</td><td>{name}</td>{cells}</tr>'


def _value(value: object) -> str:
    text = repr(value)
    if len(text) > REPORT_PAGE_TEXT_CHARS_MAX:
        text = f"{text[:REPORT_PAGE_TEXT_CHARS_MAX]}… [{len(text)} characters]"
    return _text(text)


def _text(text: str) -> str:
    """Return any text so that a browser shows it and does nothing with it."""
    return escape(_UNSEEN.sub(lambda found: ascii(found.group())[1:-1], text))
