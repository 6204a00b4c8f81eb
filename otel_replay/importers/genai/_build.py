"""Resolved calls of one trace -> a Recording: addresses, order, envelopes and what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter

from otel_replay import run_digest
from otel_replay.envelope import APPROXIMATE, Envelope, Mark, Payload, Recording, Run, lost
from otel_replay.importers.genai import _outcome, _vendor, rebuild
from otel_replay.importers.genai._call import Call
from otel_replay.importers.genai._tree import Tree
from otel_replay.span import Span

_SIGNS = str.maketrans({"/": "_", "~": "_", "[": "(", "]": ")"})
ORDER = "imported: order by start time"


def recording_of(
    tree: Tree, calls: Sequence[Call], notes: Iterable[str], problems: Iterable[str], source: str
) -> Recording:
    """Return the recording of one trace. `calls` are one a real call, any order."""
    root = tree.run_span(calls)
    ordered = sorted(calls, key=lambda call: (call.span.start_ns, tree.depth(call.span), call.span.span_id))
    ordered = [call for call in ordered if root is None or call.span.span_id != root.span.span_id]
    parents = _Parents(tree, ordered)
    places = _addresses(ordered, parents)
    ended = [call for call in ordered if call.span.end_ns]
    ends = sorted(ended, key=lambda call: (_end_of(call), call.span.span_id))
    end_seqs = {call.span.span_id: number for number, call in enumerate(ends, 1)}
    run = _run(tree, root, ordered, notes)
    built = []
    for seq, call in enumerate(ordered, 1):
        address = places[call.span.span_id]
        made = _envelope(call, run, address, seq, end_seqs.get(call.span.span_id, 0))
        built.append(_writable(made))
    envelopes = tuple(built)
    damaged = {e.address: e.outcome.end for e in envelopes if e.grade == "insufficient" and e.kind != "custom"}
    unfinished = tuple(_mark(envelope) for envelope in envelopes if not envelope.end_seq)
    run = replace(run, name=_spelt(run.name), crossings=len(envelopes), digest=run_digest.of_run(envelopes))
    return Recording(run, envelopes, unfinished, (), damaged, tuple(problems), source)


def _end_of(call: Call) -> int:
    """Return when a call ended, and never before it began: of two clocks one may be wrong."""
    return max(call.end_ns or call.span.end_ns, call.span.start_ns)


def _writable(envelope: Envelope) -> Envelope:
    """Return the envelope with half surrogate pairs in its names and reasons written out: no UTF-8 can hold them.

    What a value holds stands in its text as JSON, which `_outcome.payload` has seen to.
    """
    outcome = envelope.outcome
    told = (*_NAMES(envelope), *envelope.notes, outcome.end, outcome.value.reason, envelope.request.reason)
    if "".join(told).isascii():
        return envelope
    value = replace(outcome.value, reason=_spelt(outcome.value.reason))
    return replace(
        envelope,
        run_id=_spelt(envelope.run_id),
        run_name=_spelt(envelope.run_name),
        address=_spelt(envelope.address),
        parent=_spelt(envelope.parent),
        boundary=_spelt(envelope.boundary),
        kind=_spelt(envelope.kind),
        notes=tuple(map(_spelt, envelope.notes)),
        request=replace(envelope.request, reason=_spelt(envelope.request.reason)),
        outcome=replace(outcome, end=_spelt(outcome.end), value=value),
    )


_NAMES = attrgetter("run_id", "run_name", "address", "parent", "boundary", "kind")


def _spelt(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _mark(envelope: Envelope) -> Mark:
    return Mark(envelope.address, envelope.boundary, envelope.kind, envelope.seq, envelope.strand, envelope.start_ns,
                envelope.parent, envelope.span_id)  # fmt: skip


class _Parents:
    """Finds the call that a call stands under: its nearest ancestor that is one, but never a model call.

    A model call runs no tools: a span that shows it so (Google's ADK) only nests for display.
    """

    def __init__(self, tree: Tree, calls: Sequence[Call]) -> None:
        self._tree = tree
        self._owner = {span.span_id: call for call in calls for span in (call.span, *call.spans)}

    def of(self, call: Call) -> Call | None:
        for span in self._tree.ancestors(call.span):
            found = self._owner.get(span.span_id)
            if found is not None and found is not call and found.role != "model":
                return found
        return None


def boundary_name(call: Call) -> str:
    """Return the boundary of a call: the model operation, the tool's name, the agent's name; addresses' signs apart."""
    name = _vendor.boundary_of(call) if call.role == "model" else call.name or call.span.name
    return name.translate(_SIGNS).strip() or "unnamed"


def _addresses(ordered: Sequence[Call], parents: _Parents) -> dict[str, str]:
    counts: dict[tuple[str, str], int] = {}
    found: dict[str, str] = {}
    below: dict[str, Call | None] = {call.span.span_id: parents.of(call) for call in ordered}

    def place(call: Call, depth: int = 0) -> str:
        known = found.get(call.span.span_id)
        if known is not None:
            return known
        parent = below[call.span.span_id]
        above = place(parent, depth + 1) if parent is not None and depth < 150 else ""
        name = boundary_name(call)
        number = counts[above, name] = counts.get((above, name), 0) + 1
        found[call.span.span_id] = f"{above}/{name}[{number}]" if above else f"{name}[{number}]"
        return found[call.span.span_id]

    for call in ordered:
        place(call)
    return found


def _run(tree: Tree, root: Call | None, calls: Sequence[Call], notes: Iterable[str]) -> Run:
    top = root.span if root is not None else tree.root
    spans = tree.spans
    start = min((span.start_ns for span in spans), default=0)
    end = top.end_ns if top is not None else max((span.end_ns for span in spans), default=0)
    if top is not None and not end:
        notes = (*notes, "the run had not ended when the trace was written")
    name = (root.name if root is not None else "") or (top.name if top is not None else spans[0].name)
    error, answer = "", None
    if root is not None:
        if root.result.whole:
            answer = _outcome.payload(root.result.value)
        if root.fault is not None:
            error = ": ".join(part for part in (root.fault.type, root.fault.message) if part)
    return Run(
        run_id=tree.trace_id,
        name=name,
        start_ns=start,
        end_ns=end,
        answer=answer,
        error=error,
        verdict="failed" if error else "unknown",
        notes=(ORDER, *notes),
        trace_id=tree.trace_id,
        span_id=top.span_id if top is not None else "",
        parent_span_id=top.parent_span_id if top is not None else "",
        pins=_service(top or spans[0]),
    )


def _service(span: Span) -> Mapping[str, object]:
    names = ("service.name", "service.version")
    return {key: value for key, value in span.resource.attributes if key in names and isinstance(value, str)}


def _envelope(call: Call, run: Run, address: str, seq: int, end_seq: int) -> Envelope:
    boundary = boundary_name(call)
    reason = _outcome.reason_of(call)
    request, response = _content(call, boundary)
    outcome = _outcome.outcome_of(call, response, reason)
    kind = call.kind or ("custom" if call.role == "structure" else "mcp" if call.mcp else call.role)
    if call.streamed:
        call.notes.append(rebuild.CHUNKS_UNKNOWN)
    if call.fault is None and call.span.status_code == 2:
        call.notes.append("the span's status is error, but no exception is in the record")
    if call.span.end_ns and call.span.end_ns < call.span.start_ns:
        call.notes.append("it ends before it starts: its times are as given, its place is by its start")
    insufficient = outcome.kind == "lost" or request.lost
    if not insufficient and (derived := _derived(call)):
        call.notes.insert(0, f"{APPROXIMATE}: its {derived} rebuilt from messages, and {_WORDS}")
    return Envelope(
        run_id=run.run_id,
        run_name=run.name,
        address=address,
        parent=address.rpartition("/")[0],
        boundary=boundary,
        kind=kind,
        request=request,
        outcome=outcome,
        seq=seq,
        end_seq=end_seq,
        start_ns=call.span.start_ns,
        end_ns=call.end_ns or call.span.end_ns,
        pins=_pins(call),
        notes=tuple(dict.fromkeys(call.notes)),
        attempts=tuple(call.attempts),
        trace_id=call.span.trace_id,
        span_id=call.span.span_id,
        parent_span_id=call.span.parent_span_id,
        grade="insufficient" if insufficient else "exact" if call.exact else "semantic",
    )


_WORDS = "what was sent and received word for word is not in the record"


def _derived(call: Call) -> str:
    """Return which side of a model call is put together from what a convention derived of it; "" for neither."""
    if call.role != "model" or call.vectors is not None:
        return ""
    answered = call.fault is None and call.response is None and call.raw_blocks is None
    sides = ["request"] * (call.request is None) + ["answer"] * answered
    return " and ".join(sides) + (" are" if len(sides) > 1 else " is" if sides else "")


def _content(call: Call, boundary: str) -> tuple[Payload, object]:
    if call.role == "model":
        request = rebuild.request_of(call, boundary)
        response = rebuild.response_of(call, boundary)
        return (_outcome.payload(request) if request is not None else lost(_lost_input(call))), response
    if call.arguments.whole:
        return _outcome.payload(call.arguments.value), call.result.value
    return lost(_lost_input(call)), call.result.value


def _lost_input(call: Call) -> str:
    return "; ".join(call.damage) or f"the input was not captured{_outcome.advice(call)}"


def _pins(call: Call) -> dict[str, object]:
    """Return the readable pins, and under `import` what the import knows.

    `convention`, `scope`; `missing` and the `setting` that lost it; `damage`; the ids of all `spans` of the call; and
    `rebuilt`, where the request was put together from messages: a field that it lacks is unknown, not absent. Where
    only some fields are unknown, `unknown` names them, and all others are compared.
    """
    scope = call.span.scope
    found: dict[str, object] = {}
    if "model" in (call.role, call.kind):
        asked, answered = call.model, call.answered_model
        found |= {key: value for key, value in (("model.asked", asked), ("model.answered", answered)) if value}
        if call.provider:
            found["provider"] = call.provider
        if call.usage:
            found["usage"] = dict(call.usage)
    origin: dict[str, object] = {"convention": call.convention, "scope": f"{scope.name} {scope.version}".strip()}
    missing = _outcome.missing_of(call)
    if missing:
        origin["missing"] = list(missing)
        if call.setting:
            origin["setting"] = call.setting
    if call.damage:
        origin["damage"] = list(dict.fromkeys(call.damage))
    if call.role == "model" and call.request is None and call.messages:
        origin["rebuilt"] = True  # a field that the request lacks may have been sent all the same
    if len(call.spans) > 1:
        origin["spans"] = [span.span_id for span in call.spans]
    origin |= call.origin
    found["import"] = origin
    return found
