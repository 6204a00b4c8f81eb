"""The plan of a replay: which crossings are served from the record, and which run with new code."""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from otel_replay.envelope import Envelope
from otel_replay.errors import AmbiguousAddress, UnknownBoundary, UsageError
from otel_replay.replay.tape import Entry, Tape

Action: TypeAlias = Literal["stub", "live", "override", "new", "changed", "repeat"]
OnDrift: TypeAlias = Literal["fail", "live", "serve"]
_ADDRESS = re.compile(r"[^/\[\]]+\[(\d+|\*)\](~\d+)?(/[^/\[\]]+\[(\d+|\*)\](~\d+)?)*")


@dataclass(frozen=True, slots=True)
class Choice:
    """One line of a plan: what it selects and what happens to it."""

    action: Action
    name: str = ""
    occurrence: int | None = None
    address: str = ""
    kind: str = ""
    where: Callable[[Envelope], bool] | None = None
    value: object = None
    raises: BaseException | None = None

    def __str__(self) -> str:
        if self.address:
            return f".{self.action}({self.address!r})"
        if self.kind:
            return f".{self.action}(kind={self.kind!r})"
        if self.where is not None:
            return f".{self.action}(where=...)"
        tail = f", {self.occurrence}" if self.occurrence is not None else ""
        return f".{self.action}({self.name!r}{tail})"


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """What a replay serves and what it runs. Immutable: each method returns a new plan.

    Without any line everything is served. A line selects by name and occurrence (`.live("agent", 2)`; no occurrence
    means each), by address (`"plan[2]/search[1]"`, `*` for any number), by `kind=`, or by `where=`, a predicate over
    envelopes. Later lines win. `on_drift` says what happens to a crossing that may rightly differ from the record,
    since it follows or lies under something live, or since its input was `changed`: "fail", run "live", or "serve"
    what was recorded.
    """

    choices: tuple[Choice, ...] = ()
    on_drift: OnDrift = "fail"
    hybrid: bool = False
    shuffle: int | None = None
    """Serve what overlapped in the record in another order of ends, which this number picks: to find races."""

    def __post_init__(self) -> None:
        if self.on_drift not in ("fail", "live", "serve"):
            raise UsageError(f"on_drift is fail, live or serve, not {self.on_drift!r}")

    def stub(
        self,
        name: str = "",
        occurrence: int | None = None,
        *,
        kind: str = "",
        where: Callable[[Envelope], bool] | None = None,
    ) -> ReplayPlan:
        """Serve what this selects from the record."""
        return self._with("stub", name, occurrence, kind, where)

    def live(
        self,
        name: str = "",
        occurrence: int | None = None,
        *,
        kind: str = "",
        where: Callable[[Envelope], bool] | None = None,
    ) -> ReplayPlan:
        """Run what this selects with the code of today; the bodies around it run too."""
        return self._with("live", name, occurrence, kind, where)

    def override(
        self, name: str, occurrence: int | None = None, value: object = None, *, raises: BaseException | None = None
    ) -> ReplayPlan:
        """Give what this selects the outcome `value`, or let it raise `raises`."""
        return self._with("override", name, occurrence, "", None, value, raises)

    def new(self, name: str) -> ReplayPlan:
        """Let the boundary `name`, which the record lacks, run live: the commonest kind of fix adds a check."""
        if not name:
            raise UsageError(".new needs the name of the boundary that the record lacks")
        return self._with("new", name, None, "", None)

    def repeat(self, name: str) -> ReplayPlan:
        """Let `name` be asked the same more often than recorded, as what polls may: the last answer is served again.

        What was asked with another input is still a divergence. Each repetition is counted in the report.
        """
        if not name:
            raise UsageError(".repeat needs the name of the boundary that may be asked again")
        return self._with("repeat", name, None, "", None)

    def changed(
        self,
        name: str = "",
        occurrence: int | None = None,
        *,
        kind: str = "",
        where: Callable[[Envelope], bool] | None = None,
    ) -> ReplayPlan:
        """Say that the input of what this selects was changed on purpose, as by an edit of the prompt.

        It is matched by its place where its input drifted, and `on_drift` decides: "serve" goes on with the recorded
        answers and reports each drift, "live" goes on with today's.
        """
        return self._with("changed", name, occurrence, kind, where)

    def _with(
        self,
        action: Action,
        name: str,
        occurrence: int | None,
        kind: str,
        where: Callable[[Envelope], bool] | None,
        value: object = None,
        raises: BaseException | None = None,
    ) -> ReplayPlan:
        if not (name or kind or where):
            raise UsageError(f".{action}() needs a name, an address, kind= or where=")
        if occurrence is not None and (not isinstance(occurrence, int) or occurrence < 1):
            raise UsageError(f".{action}({name!r}, {occurrence!r}): occurrences count from 1")
        address = name if _ADDRESS.fullmatch(name) else ""
        if "[" in name and not address:
            raise UsageError(f".{action}({name!r}): not an address; one looks like plan[2]/search[1]")
        choice = Choice(action, "" if address else name, occurrence, address, kind, where, value, raises)
        return replace(self, choices=(*self.choices, choice))

    def explain(self, source: object) -> str:
        """Return as text what a replay of `source` under this plan will serve, run, block, and not know."""
        from otel_replay.replay.explain import explain  # it needs the plan, and is seldom asked for

        return explain(self, source)


@dataclass(slots=True)
class Resolved:
    """A plan put to a tape: what happens to each recorded crossing."""

    plan: ReplayPlan
    actions: dict[str, Choice]
    opened: set[str]
    new: set[str]
    live_names: set[str]
    named: set[str] = field(default_factory=set)
    """Addresses that the plan names by name or address: only these may have side effects live."""
    changed: set[str] = field(default_factory=set)
    """Addresses whose input was changed on purpose."""
    repeats: set[str] = field(default_factory=set)
    """Names that may be asked the same more often than recorded."""

    def action(self, entry: Entry) -> str:
        """Return stub, live, override or opened."""
        choice = self.actions.get(entry.address)
        if choice is not None and choice.action in ("live", "override"):
            return choice.action
        return "opened" if entry.address in self.opened else "stub"

    def stubbed_by_address(self, entry: Entry) -> bool:
        """True where the plan says stub of this very crossing, which lets a drift be served."""
        choice = self.actions.get(entry.address)
        return choice is not None and choice.action == "stub" and bool(choice.address or choice.occurrence)

    def names_it(self, name: str, address: str) -> bool:
        """True where the plan itself names this crossing to run live."""
        return address in self.named or name in self.new or name in self.live_names


def resolve(plan: ReplayPlan, tape: Tape, other_names: Mapping[str, object] | None = None) -> Resolved:
    """Put `plan` to `tape`. Raises UnknownBoundary (with the nearest name) and AmbiguousAddress (with the paths)."""
    found = Resolved(plan, {}, set(), set(), set())
    for choice in plan.choices:
        if choice.action == "new":
            found.new.add(choice.name)
            continue
        selected = _select(choice, tape, other_names or {})
        if choice.action == "changed":
            found.changed.update(entry.address for entry in selected)
            continue
        if choice.action == "repeat":
            found.repeats.update(entry.name for entry in selected)
            continue
        for entry in selected:
            found.actions[entry.address] = choice
            found.named.discard(entry.address)
            if choice.action == "live" and not (choice.kind or choice.where):
                found.named.add(entry.address)
        if choice.name and choice.occurrence is None:
            (found.live_names.add if choice.action == "live" else found.live_names.discard)(choice.name)
    for address, choice in found.actions.items():
        if choice.action in ("live", "override"):
            for ancestor in tape.ancestors(address):
                found.opened.add(ancestor.address)
    return found


def _select(choice: Choice, tape: Tape, other_names: Mapping[str, object]) -> list[Entry]:
    if choice.where is not None:
        wanted = choice.where
        return tape.select(lambda entry: wanted(entry.envelope))
    if choice.kind:
        return tape.select(lambda entry: entry.envelope.kind == choice.kind)
    if choice.address:
        pattern = re.sub(r"\[(\d+)\]", r"[[]\1]", choice.address).replace("[*]", "[[]*]")
        selected = tape.select(lambda entry: fnmatch.fnmatchcase(entry.address, pattern))
        if not selected and "~" not in choice.address:
            raise UnknownBoundary(_unknown(choice, choice.address, list(tape.entries)))
        return selected
    entries = tape.names.get(choice.name, [])
    if not entries:
        if choice.name in other_names:
            return []  # another lane of the run holds it
        raise UnknownBoundary(_unknown(choice, choice.name, list(tape.names)))
    if choice.occurrence is None:
        return list(entries)
    if choice.occurrence > len(entries):
        raise UnknownBoundary(
            f"{choice}: the record holds {choice.name!r} {len(entries)} time(s), so there is no {choice.occurrence}; "
            f"known: {', '.join(entry.address for entry in entries[:10])}"
        )
    wanted_entry = entries[choice.occurrence - 1]
    for at, entry in enumerate(entries):
        before = at < choice.occurrence - 1
        pair = (entry, wanted_entry) if before else (wanted_entry, entry)
        if entry is not wanted_entry and not tape.ordered_before(*pair):
            raise AmbiguousAddress(
                f"{choice} is not certain: {choice.name!r} was crossed by strands that ran side by side, so which "
                f"came first is an accident; name one by its address: {', '.join(e.address for e in entries[:20])}"
            )
    return [wanted_entry]


def nearest(name: str, known: list[str]) -> str:
    """Return a hint that names what `name` may have meant."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


def _unknown(choice: Choice, name: str, known: list[str]) -> str:
    listed = ", ".join(sorted(known)[:20]) or "nothing"
    hint = nearest(name, known)
    extra = "" if choice.action != "live" else f" A boundary that the record lacks runs live with .new({name!r})."
    return f"{choice}: the record holds no {name!r}{hint} It holds: {listed}.{extra}"


def plan_from(value: Any) -> ReplayPlan:
    """Return `value` as a plan; None is the plan that serves everything."""
    if value is None:
        return ReplayPlan()
    if isinstance(value, ReplayPlan):
        return value
    raise UsageError(f"a plan is a ReplayPlan, not {type(value).__name__}")
