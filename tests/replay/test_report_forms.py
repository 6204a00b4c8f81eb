"""A report can be written in each of its forms, whatever the recording and the program hold."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_replay.changes import FieldChange
from otel_replay.replay.pins import PinChange
from otel_replay.replay.report import Line, Report

_VOID = {"meta", "br"}
_TAGS = (
    *("html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "p", "span", "br", "pre", "code", "small"),
    *("div", "table", "thead", "tbody", "tr", "th", "td", "ul", "li"),
)
_ATTRIBUTES = {"lang", "charset", "http-equiv", "content", "name", "class", "scope"}
texts = st.text(min_size=1, max_size=30) | st.sampled_from(
    ["<script>alert(1)</script>", "</td><img src=x onerror=a()>", "\x1b[31m", "\ud83d", "&amp;", "\u202e", "]]>"]
)


class Page(HTMLParser):
    """What a browser would make of it: the tags, their attributes, and the text of each kind of element."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.shown: dict[str, list[str]] = {}
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.update(name for name, _ in attrs)
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.shown.setdefault(self.open[-1], []).append(data)


def report_of(text: str, **changes: object) -> Report:
    facts: dict[str, object] = {
        "source": text,
        "verdict": "diverged",
        "lines": (
            Line("served", "plan[1]"),
            Line("live", "search[1]", text, text, note=text),
            Line("drifted", "search[2]", fields=(FieldChange("$.q", text, {"a": text}, text),)),
        ),
        "recorded": 3,
        "error": text,
        "cause": text,
        "next_steps": (text, '--live "search[2]"'),
        "notes": (text,),
        "pins": (PinChange("python", "3.11.2", text, ("search[1]",)),),
        **changes,
    }
    return Report(**facts)  # type: ignore[arg-type]


@given(texts)
def test_every_form_can_be_written_and_read_whatever_stands_in_it(text: str) -> None:
    huge = FieldChange("$.q", 1 << 70, {"a": (text, 1.5, None)}, text)
    forms = report_of(text, lines=(Line("drifted", text, fields=(huge,)),)).forms()
    for form in forms.values():
        form.encode("utf-8")
    assert not set(forms["text"]) & {"\x1b", "\x00", "\x07"}
    assert json.loads(forms["json"])["error"] == text.encode("utf-8", "backslashreplace").decode()
    case = ElementTree.fromstring(forms["junit"])[0]
    assert case.tag == "testcase"


@given(texts)
def test_nothing_recorded_becomes_a_part_of_the_page(text: str) -> None:
    plain = Page(report_of("x").html())
    page = Page(report_of(text).html())
    assert page.tags == plain.tags
    assert set(page.tags) <= set(_TAGS)
    assert page.attributes <= _ATTRIBUTES
    assert page.open == []
    page_text = report_of(text).html()
    page_text.encode("utf-8")
    assert not {"\x00", "\x1b", "\u202e"} & set(page_text)


def test_the_page_shows_all_that_the_other_forms_hold() -> None:
    page = Page(report_of("5 < 6 & more").html())
    assert page.shown["h1"] == ["Replay of 5 < 6 & more"]
    assert page.shown["pre"] == ["5 < 6 & more", "5 < 6 & more", '--live "search[2]"']
    assert page.shown["code"] == ["plan[1]", "search[1]", "search[2]", "$.q"]
    assert page.shown["li"] == ["5 < 6 & more"]
    assert "{'a': '5 < 6 & more'}" in page.shown["td"]
    assert "python" in page.shown["td"]
    assert "network: not guarded" in page.shown["span"]


@pytest.mark.parametrize(("verdict", "tone"), [("passed", "good"), ("passed on drift", "warn"), ("failed", "bad")])
def test_the_page_says_the_verdict_first(verdict: str, tone: str) -> None:
    page = report_of("x", verdict=verdict, error="", notes=(), pins=(), lines=(), next_steps=()).html()
    assert f'<p class="verdict {tone}">{verdict}</p>' in page
    assert "<table>" not in page
    assert "nothing crossed" in page


def test_long_values_are_cut_with_a_mark() -> None:
    change = FieldChange("$.q", "a" * 50_000, "b", "")
    page = report_of("x", lines=(Line("drifted", "search[1]", fields=(change,)),)).html()
    assert len(page) < 20_000
    assert "… [50002 characters]" in page
