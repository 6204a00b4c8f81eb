"""Row <-> row without its large strings: what the store keeps once by content leaves the row's texts.

A reference stands in the place of such a string, JSON that a query sees as it sees everything else (`blobs.cut` has
its form). The column `blobs` says where: `{"request": [[at, length, sha256], ...], "envelope": [...]}`.

Law: `join_row(*cut_row(row)) == row` for every row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final

import orjson

from otel_replay import limits
from otel_replay.blobs import BlobMissing, Cut, cut, is_name, join
from otel_replay.store import schema
from otel_replay.store.promoted import Row

MISSING: Final = "missing"
"""In a row that was read: why its large strings can't be given back. No column: it is found anew each time."""
_AS_STORED: Final = "as stored"


def cut_row(row: Row) -> tuple[Row, dict[str, str]]:
    """Return (`row` with references for its large strings, the strings by name)."""
    if _AS_STORED in row:  # its strings can't be read now: what refers to them is kept
        return {**row[_AS_STORED], "difference": row.get("difference")}, {}
    if row.get("blobs"):  # it came from a file as it is
        return row, {}
    found: dict[str, str] = {}
    places: dict[str, list[list[Any]]] = {}
    texts: Row = {}
    for column in schema.LONG_COLUMNS:
        text = row.get(column)
        if text is None or len(text) <= limits.BLOB_THRESHOLD_BYTES:
            continue
        pieces = cut(text)
        if pieces.cuts:
            texts[column] = pieces.text
            places[column] = [list(place) for place in pieces.cuts]
            found |= pieces.blobs
    if not places:
        return row, {}
    return {**row, **texts, "blobs": orjson.dumps(places).decode()}, found


def join_row(row: Row, lookup: Callable[[str], str]) -> Row:
    """Return `row` as it was before `cut_row`.

    Where `lookup` raises BlobMissing the row comes without what can't be given back, and says so: integrity `missing`,
    the reason under MISSING, one more attribute dropped for each that is gone.
    """
    if not row.get("blobs"):
        return row
    try:
        places = _places(row["blobs"])
        texts = {column: join(row[column], cuts, lookup) for column, cuts in places.items()}
    except (BlobMissing, ValueError, TypeError, AttributeError) as fault:
        return _without(row, str(fault))
    return {**row, **texts, "blobs": None}


def names_of(columns: Iterable[str]) -> set[str]:
    """Return the names of the blobs that these values of the column `blobs` refer to, those that can be read."""
    found: set[str] = set()
    for text in columns:
        with suppress(ValueError, TypeError, AttributeError):
            found.update(place.sha256 for cuts in _places(text).values() for place in cuts)
    return found


def _places(text: str) -> dict[str, list[Cut]]:
    """Return the cuts by column. Raises ValueError or TypeError: a recording is not trusted."""
    found = {column: [Cut(int(at), int(length), name) for at, length, name in cuts] for column, cuts in
             orjson.loads(text).items()}  # fmt: skip
    if not found.keys() <= set(schema.LONG_COLUMNS) or not all(is_name(c.sha256) for v in found.values() for c in v):
        raise ValueError("its references to blobs can't be read")
    return found


def _without(row: Row, reason: str) -> Row:
    try:
        gone = set(_places(row["blobs"]))
    except (ValueError, TypeError, AttributeError):
        gone = set(schema.LONG_COLUMNS)
    if not gone.isdisjoint(("request", "response")):  # it is put together from all three
        gone.add("envelope")
    left, dropped = _attributes_left(row, gone)
    return {
        **row,
        **dict.fromkeys(gone),
        "attributes": left,
        "dropped_attributes": row["dropped_attributes"] + dropped,
        "exact": None,
        "blobs": None,
        "integrity": "missing",
        MISSING: reason,
        _AS_STORED: row,
    }


def _attributes_left(row: Row, gone: set[str]) -> tuple[str, int]:
    """Return (the attributes whose values are still here, how many are not)."""
    tree = orjson.loads(row["attributes"])
    if "attributes" in gone:
        return "{}", len(tree)
    lacking: list[object] = [{tag: column} for tag in ("$text", "$json") for column in gone]
    left = {
        key: value
        for key, value in tree.items()
        if value not in lacking
        and ("envelope" not in gone or not (isinstance(value, dict) and value.keys() == {"$envelope"}))
    }
    if row.get("exact") is not None:
        return orjson.dumps(left).decode(), 1  # its attributes are here as people read them, not as they were
    return orjson.dumps(left).decode(), len(tree) - len(left)
