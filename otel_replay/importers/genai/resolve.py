"""Double spans: a framework, a provider's instrumentation and the SDK itself each write one for the same call.

Rules, by nesting and scope, never by name alone:
- A model span directly under a model span (nothing but unread spans between) tells of the same call, unless both are
  whole and differ in response id or answer, or the upper one holds several: then the upper one only wraps.
- A tool span directly under a tool span of the same tool, from another scope (or MCP), with the same arguments as far
  as both have them, is the same call.
- Siblings with content are always two calls, however equal: nothing nests them. A sibling without any content, of
  another scope, echoes the call with its response id (or, failing ids, the one around its time).
Of one call's spans the innermost with full content speaks; the others fill what it lacks.
"""

from __future__ import annotations

from collections.abc import Sequence

from otel_replay.importers.genai._call import Call, Fault
from otel_replay.importers.genai._tree import Tree


def resolve(tree: Tree, calls: Sequence[Call]) -> tuple[list[Call], list[str]]:
    """Return (one Call a real call, what was resolved as sentences)."""
    by_span = {call.span.span_id: call for call in calls}
    under: dict[str, list[Call]] = {}
    for call in calls:
        above = _enclosing(tree, by_span, call)
        if above is not None and _same_kind(above, call):
            under.setdefault(above.span.span_id, []).append(call)
    groups, wrappers = _groups(calls, under)
    notes: list[str] = []
    found = [_spoken(group, notes) for group in _with_echoes(groups)]
    for call in wrappers:
        count = len(under[call.span.span_id])
        notes.append(f"{_label(call)} wraps {count} calls and is not counted as one")
    return found, notes


def _label(call: Call) -> str:
    return f"span {call.span.span_id} ({call.span.scope.name or 'no scope'}: {call.span.name})"


def _enclosing(tree: Tree, by_span: dict[str, Call], call: Call) -> Call | None:
    return next((by_span[s.span_id] for s in tree.ancestors(call.span) if s.span_id in by_span), None)


def _same_kind(above: Call, call: Call) -> bool:
    """True where the inner span can tell of the same call as the one directly around it."""
    if above.role != call.role or call.role == "structure":
        return False
    if call.role == "model":
        return _agree(above, call)
    other_layer = above.span.scope.name != call.span.scope.name or above.mcp != call.mcp or _server_side(call)
    other_layer = other_layer or above.span.resource != call.span.resource
    same_name = above.name == call.name
    both = above.arguments.whole and call.arguments.whole
    return other_layer and same_name and (not both or above.arguments.value == call.arguments.value)


def _server_side(call: Call) -> bool:
    """True for the span of the serving side: it tells of the call that its parent made."""
    return call.mcp and call.span.kind == 2


def _agree(above: Call, call: Call) -> bool:
    if (above.operation == "embeddings") != (call.operation == "embeddings"):
        return False
    return not (above.response_id and call.response_id and above.response_id != call.response_id)


def _groups(calls: Sequence[Call], under: dict[str, list[Call]]) -> tuple[list[list[Call]], list[Call]]:
    """Return (groups of spans of one call, outermost first; spans that only wrap several calls)."""
    inner = {call.span.span_id for held in under.values() for call in held}
    groups: list[list[Call]] = []
    wrappers: list[Call] = []

    def walk(call: Call) -> None:
        chain = [call]
        while True:
            held = under.get(chain[-1].span.span_id, [])
            if len(held) != 1:
                break
            chain.append(held[0])
        if held:
            wrappers.extend(chain)
            for one in held:
                walk(one)
        else:
            groups.append(chain)

    for call in calls:
        if call.span.span_id not in inner:
            walk(call)
    seen = {call.span.span_id for group in (*groups, wrappers) for call in group}
    groups.extend([call] for call in calls if call.span.span_id not in seen)  # a cycle of parents has no outermost
    return groups, wrappers


def _with_echoes(groups: list[list[Call]]) -> list[list[Call]]:
    """Put spans that only echo another's call into its group.

    An instrumentation that doesn't make its span current gets the SDK's own span beside it, not below it. An echo is a
    model span without any content, of another scope: it has the same response id, or (where one has none) the same
    parent and model, and lies within the other's time.
    """
    echoes = [group for group in groups if len(group) == 1 and _is_empty(group[0])]
    others = [group for group in groups if not (len(group) == 1 and _is_empty(group[0]))]
    kept: list[list[Call]] = []
    taken: set[str] = set()
    for echo in echoes:
        fitting = [group for group in others if _echoes(echo[0], group[-1]) and group[0].span.span_id not in taken]
        if not fitting:
            kept.append(echo)
            continue
        nearest = max(fitting, key=lambda group: (bool(group[-1].response_id), group[-1].span.start_ns))
        taken.add(nearest[0].span.span_id)
        nearest.append(echo[0])
    return others + kept


def _is_empty(call: Call) -> bool:
    return call.role == "model" and not (call.has_input or call.has_output or call.damage)


def _echoes(echo: Call, call: Call) -> bool:
    if call.role != "model" or call.span.scope.name == echo.span.scope.name:
        return False
    if echo.response_id and call.response_id:
        return echo.response_id == call.response_id
    if (echo.fault is None) != (call.fault is None) or echo.span.parent_span_id != call.span.parent_span_id:
        return False
    within = call.span.start_ns <= echo.span.start_ns and echo.span.end_ns <= call.span.end_ns
    return within and echo.model == call.model


def _spoken(group: list[Call], notes: list[str]) -> Call:
    """Return the call of a group as its best span tells it, gaps filled from the others."""
    group[0].spans = group[0].spans or (group[0].span,)
    if len(group) == 1:
        return group[0]
    inner_first = group[::-1]
    if group[0].role == "tool":
        # The agent calls the tool, not the protocol beneath it: what MCP puts on the wire is not what the tool returns.
        inner_first.sort(key=lambda call: call.mcp)
    best = max(inner_first, key=lambda call: call.fullness)  # max keeps the first of equals: the innermost
    others = [call for call in inner_first if call is not best]
    for other in others:
        fill(best, other)
    best.spans = tuple(call.span for call in group)
    names = ", ".join(_label(call) for call in others)
    text = f"{len(group)} spans tell of one call: {_label(best)} speaks, {names} noted"
    best.notes.append(text)
    notes.append(text)
    return best


def fill(best: Call, other: Call) -> None:
    """Give `best` what it lacks and `other` has: ids, models, parameters, usage, a failure's class, content."""
    for name in ("provider", "api", "model", "answered_model", "response_id", "finish_reasons", "raw_blocks"):
        if not getattr(best, name):
            setattr(best, name, getattr(other, name))
    best.usage = {**other.usage, **best.usage}
    best.extras = {**other.extras, **best.extras}
    if best.request is None:
        best.params = {**other.params, **best.params}
    best.tools = best.tools or other.tools
    best.streamed = best.streamed or other.streamed
    if other.damage:
        best.notes.extend(f"in the {other.convention} view: {reason}" for reason in other.damage)
    else:
        _fill_content(best, other)
    if other.fault is not None and _better_fault(best, other.fault):
        best.fault = other.fault


def _better_fault(best: Call, fault: Fault) -> bool:
    """True where `best` knows of no failure and of no answer, or knows the failure's class less exactly."""
    if best.fault is None:
        return not best.has_output
    return len(fault.type) > len(best.fault.type)


def _fill_content(best: Call, other: Call) -> None:
    if not best.has_input and other.has_input:
        best.messages, best.request, best.arguments = other.messages, other.request, other.arguments
        best.notes.append(f"the input is from the {other.convention} view")
    if not best.has_output and other.has_output:
        best.answers, best.response, best.result = other.answers, other.response, other.result
        best.notes.append(f"the output is from the {other.convention} view")
