"""The digest that a run closes with: what shows that no crossing of it was lost, added or changed.

It is a sum over the crossings, since parallel ones end in any order; order-sensitive all the same, as each term holds
its place. A term depends on place and content: the request, what came of it and where it stood. Clocks, ids of traces
and runs, the machine and pins stay out, so that the same run recorded twice has the same digest.

Recipe 2, "2:" and 64 hex digits: a term is the SHA-256 of the content that opens the envelope's JSON form, as the span
carries it. Recipe 1, which older recordings close with: each part with its length before it.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Final

from otel_replay import jsonform
from otel_replay.envelope import Envelope

RECIPE: Final = "2"
_MODULUS: Final = 1 << 256


def term(envelope: Envelope, recipe: str = RECIPE) -> int:
    """Return what one crossing adds to its run's digest."""
    if recipe == "1":
        return _term_1(envelope)
    return int.from_bytes(sha256(jsonform.content_json(envelope)).digest(), "big")


def text(total: int, recipe: str = RECIPE) -> str:
    """Return the text form of a sum of terms: the recipe, a colon and 64 hex digits."""
    return f"{recipe}:{total % _MODULUS:064x}"


def recipe_of(digest: str) -> str:
    """Return the recipe of a run's digest; "" for one that this version does not know."""
    recipe = digest.partition(":")[0]
    return recipe if recipe in ("1", RECIPE) else ""


def of_run(envelopes: Iterable[Envelope], like: str = "") -> str:
    """Return the digest that a run with exactly these crossings closes with, by the recipe of the digest `like`."""
    recipe = recipe_of(like) or RECIPE
    return text(sum(term(envelope, recipe) for envelope in envelopes), recipe)


def exchanged(digest: str, before: Envelope, after: Envelope) -> str:
    """Return a run's digest once the crossing `before` stands as `after`."""
    recipe, _, number = digest.partition(":")
    return text(int(number, 16) - term(before, recipe) + term(after, recipe), recipe)


def _term_1(envelope: Envelope) -> int:
    outcome = envelope.outcome
    texts = [
        envelope.lane,
        envelope.address,
        str(envelope.strand),
        str(envelope.seq),
        str(envelope.end_seq),
        envelope.request.encoding,
        envelope.request.text,
        outcome.kind,
        outcome.end,
        outcome.value.encoding,
        outcome.value.text,
        *(chunk.value.text for chunk in outcome.chunks),
    ]
    parts: list[bytes] = []
    for item in texts:
        data = item.encode()
        parts += (len(data).to_bytes(8, "big"), data)
    return int.from_bytes(sha256(b"".join(parts)).digest(), "big")
