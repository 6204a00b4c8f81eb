"""HTTP answers as values, and back byte for byte.

A whole answer is {"status": 200, "headers": [[name, value]], "form": "json spaced", "body": {...}}: `form` says how
`body` is spelt, so that JSON is readable and still gives the same bytes. An event of a stream is {"event": name,
"data": {...}} with the `form` of its JSON where that is not compact, else {"form": "text", "body": ...}. Bodies under
a `content-encoding` are kept unpacked with its name in "encoded", and packed again when served: byte for byte where
there is a "recipe" (see packing.py). "portions" are the sizes in which the body came, where it came in several: of
the raw body under a recipe, else of the body as it is kept.
"""

from __future__ import annotations

import base64
import itertools
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from otel_replay.errors import Unservable
from otel_replay.limits import PAYLOAD_BYTES_MAX
from otel_replay.wire.packing import packed


def _dump(separators: tuple[str, str], ascii_only: bool, indent: int | None = None) -> Callable[[Any], str]:
    return lambda tree: json.dumps(tree, ensure_ascii=ascii_only, separators=separators, indent=indent)


FORMS: Mapping[str, Callable[[Any], str]] = {
    "json": _dump((",", ":"), False),
    "json spaced": _dump((", ", ": "), True),
    "json indented": _dump((",", ": "), False, 2),
    "json ascii": _dump((",", ":"), True),
    "json spaced utf-8": _dump((", ", ": "), False),
    "json indented ascii": _dump((",", ": "), True, 2),
}
_LINE_FEED = ", line feed"
"""What a form is called where one line feed follows: OpenAI ends its answers so."""
_LINE = re.compile(rb"\A(?:event: ?([^\r\n]*)\n)?data: ([^\r\n]*)\n\n\Z")
Headers = Iterable[tuple[str, str]]


def body_to(content: bytes) -> tuple[str, Any]:
    """Return (form, body) of these bytes: JSON as a tree where its spelling is a known one, text, or base64."""
    if not content:
        return "empty", None
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return "base64", base64.b64encode(content).decode()
    form = _json_form(text)
    return form if form is not None else ("text", text)


def _json_form(text: str) -> tuple[str, Any] | None:
    if text[0] not in '{["' or len(text) > PAYLOAD_BYTES_MAX:
        return None
    line = text.removesuffix("\n")
    try:
        tree = json.loads(line)
        for form, dump in FORMS.items():
            if dump(tree) == line:
                return form + _LINE_FEED * (line is not text), tree
    except (ValueError, RecursionError):
        pass
    return None


def body_from(form: object, body: Any) -> bytes:
    """Return the bytes that `body_to` was given. Raises Unservable for what it does not write."""
    if form == "empty":
        return b""
    if form == "text" and isinstance(body, str):
        return body.encode()
    if form == "base64" and isinstance(body, str):
        try:
            return base64.b64decode(body, validate=True)
        except ValueError as fault:
            raise Unservable(f"the recorded body is not base64: {fault}") from fault
    plain = form.removesuffix(_LINE_FEED) if isinstance(form, str) else ""
    if plain in FORMS:
        text = FORMS[plain](body) + "\n" * (plain != form)
        return text.encode("utf-8", "surrogatepass")
    raise Unservable(f"the recorded body has the unknown form {ascii(form)[:40]}")


def cut(content: bytes, sizes: object) -> list[bytes]:
    """Return `content` in parts of these sizes, in one part where they do not add up to it, in none if it is empty."""
    if isinstance(sizes, list) and all(type(size) is int and size > 0 for size in sizes) and sum(sizes) == len(content):
        ends = list(itertools.accumulate(sizes))
        return [content[end - size : end] for size, end in zip(sizes, ends, strict=True)]
    return [content] if content else []


def raw_parts(value: Any) -> list[bytes]:
    """Return the body of a whole answer as it stands on the wire, in the portions in which it came.

    Raises Unservable.
    """
    content = body_from(value.get("form"), value.get("body"))
    packing, recipe = value.get("encoded"), value.get("recipe")
    if not isinstance(packing, str) or not content:
        return cut(content, value.get("portions"))
    if isinstance(recipe, str):
        return cut(packed([content], packing, recipe)[0], value.get("portions"))
    return packed(cut(content, value.get("portions")), packing)


def answer_to(status: int, headers: Headers, content: bytes, **more: Any) -> dict[str, Any]:
    """Return the value of a whole answer; `more` are further plain facts, kept where they are true."""
    form, body = body_to(content)
    head = {"status": status, "headers": [[name, value] for name, value in headers]}
    return {**head, **{key: item for key, item in more.items() if item}, "form": form, "body": body}


def head_to(status: int, headers: Headers, **more: Any) -> dict[str, Any]:
    """Return the value that stands first in a recorded stream: its status and headers."""
    found = {"status": status, "headers": [[name, value] for name, value in headers]}
    return {**found, **{key: item for key, item in more.items() if item}}


def is_answer(value: object) -> bool:
    """True for what `answer_to` writes."""
    return isinstance(value, dict) and type(value.get("status")) is int and "form" in value and "headers" in value


def head_from(value: object) -> tuple[int, list[tuple[str, str]]]:
    """Return (status, headers) of a whole answer or of a stream's head. Raises Unservable for anything else."""
    if isinstance(value, dict) and type(value.get("status")) is int and isinstance(value.get("headers"), list):
        pairs = value["headers"]
        if all(isinstance(pair, list) and len(pair) == 2 and all(isinstance(p, str) for p in pair) for pair in pairs):
            return value["status"], [(name, item) for name, item in pairs]
    raise Unservable("the record holds no HTTP answer where one was expected")


def event_to(content: bytes) -> dict[str, Any]:
    """Return the value of one event of a stream, or of any other portion of a streamed body."""
    found = _LINE.match(content)
    if found is not None:
        kind, data = found.group(1), found.group(2)
        form, tree = body_to(data)
        if form in FORMS:
            value: dict[str, Any] = {} if kind is None else {"event": kind.decode("utf-8", "replace")}
            value["data"] = tree
            if form != "json":
                value["form"] = form
            if event_from(value) == content:
                return value
    form, body = body_to(content)
    return {"form": form, "body": body}


def event_from(value: object) -> bytes:
    """The inverse of `event_to`. Raises Unservable."""
    if isinstance(value, dict) and "data" in value:
        kind = value.get("event")
        line = b"data: " + body_from(value.get("form", "json"), value["data"]) + b"\n\n"
        return line if kind is None else b"event: " + str(kind).encode() + b"\n" + line
    if isinstance(value, dict) and "form" in value:
        return body_from(value["form"], value.get("body"))
    raise Unservable("the record holds no portion of a streamed body where one was expected")
