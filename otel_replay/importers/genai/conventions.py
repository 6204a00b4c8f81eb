"""The conventions in the order in which they are asked, and the best reading of a span that several can read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from otel_replay.importers.genai import (
    agentreplay,
    chronicle,
    exchange,
    google_adk,
    langfuse,
    langsmith,
    logfire,
    mcp,
    mlflow,
    openinference,
    openllmetry,
    otel_genai,
    pydantic_ai,
    traceloop,
    vercel_ai,
)
from otel_replay.importers.genai._call import Call, Source
from otel_replay.importers.genai.resolve import fill


class Convention(NamedTuple):
    """One convention: whether it can read a span, and what it reads."""

    name: str
    matches: Callable[[Source], bool]
    read: Callable[[Source], Call | None]


CONVENTIONS: tuple[Convention, ...] = tuple(
    Convention(module.NAME, module.matches, module.read)
    for module in (
        exchange,
        chronicle,
        agentreplay,
        vercel_ai,
        google_adk,
        mlflow,
        traceloop,
        openinference,
        pydantic_ai,
        logfire,
        openllmetry,
        langsmith,
        mcp,
        otel_genai,
        langfuse,
    )
)


def best_reading(source: Source) -> Call | None:
    """Return what the span says of a call: of several readings the fullest, then the first, gaps filled by the rest."""
    readings = [convention.read(source) for convention in CONVENTIONS if convention.matches(source)]
    found = [reading for reading in readings if reading is not None]
    if not found:
        return None
    definite = [reading for reading in found if reading.role != "structure"] or found
    best = max(definite, key=lambda reading: reading.fullness)
    for other in found:
        if other is not best and (other.role == best.role or "model" not in (other.role, best.role)):
            fill(best, other)
    if best.operation == "embeddings" and best.role == "model" and not best.has_output:
        best.setting = "use an instrumentation that keeps vectors: OpenInference does"
    return best


def after(calls: Sequence[Call], notes: list[str]) -> list[Call]:
    """Join what a convention spreads over several spans, and find the tools among plain function spans."""
    found = exchange.fold_retries(logfire.join_streams(list(calls), notes), notes)
    openllmetry.restore_call_ids(found)
    asked = {str(part.get("name")) for call in found for part in _asked(call)}
    for call in found:
        if call.role == "structure" and call.name in asked and call.span.parent_span_id:
            call.role = "tool"
            call.notes.append("read as a tool: a model asked for one of this name")
    return found


def _asked(call: Call) -> list[Mapping[str, object]]:
    """Return the tool calls that a model's answer asks for."""
    answers = call.answers or []
    return [part for message in answers for part in message["parts"] if part.get("type") == "tool_call"]
