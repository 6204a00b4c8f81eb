"""A recorded token has a time to live. Under today's clock a replay can fail for that alone: say so."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from datetime import UTC, datetime

import orjson

from otel_replay.envelope import Envelope

CAUSE = "recorded token expired"
NEXT_STEP = "leave the clock with the record: clock='recorded', or --clock recorded"
_JWT = re.compile(r"eyJ[A-Za-z0-9_-]{6,4096}\.(eyJ[A-Za-z0-9_-]{6,16384})\.")
"""Header and claims of a JSON Web Token (RFC 7519); its signature is redacted."""


def expired(served: Iterable[tuple[str, Envelope]], now_ns: int) -> list[str]:
    """Return what to say of each served token that held when recorded and does not hold at `now_ns`.

    `served` are addresses with their envelopes. Texts hold nothing of the token but its expiry.
    """
    found = []
    for address, envelope in served:
        outcome = envelope.outcome
        for text in (outcome.value.text, *(chunk.value.text for chunk in outcome.chunks)):
            for match in _JWT.finditer(text):
                until = _expiry(match.group(1))
                if until is not None and envelope.end_ns < until * 1e9 <= now_ns:
                    moment = datetime.fromtimestamp(until, UTC).isoformat(timespec="seconds")
                    found.append(f"{CAUSE}: {address} gave a token that held until {moment}, and the clock is live")
    return list(dict.fromkeys(found))


def _expiry(claims: str) -> float | None:
    try:
        exp = orjson.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["exp"]
    except (ValueError, KeyError, TypeError):
        return None
    return float(exp) if isinstance(exp, (int, float)) and 0 < exp < 1e11 else None
