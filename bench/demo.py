"""`make demo`: one incident, from its recording to a test that keeps it from coming back. Needs no service.

Exit code 0 only if everything went as it is told here.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import textwrap
import time
from typing import TYPE_CHECKING

from bench.incidents import trade
from otel_replay import OtelReplayError, open_store, record, replay
from otel_replay.testing import ModelServer

if TYPE_CHECKING:
    from otel_replay import ReplaySession

STORE = "recordings"
LINE_CHARS_MAX = 110
"""Lines of a report longer than this are cut in the demo; `session.report.text()` has them whole."""
PLAN = 'ReplayPlan().stub("agent", 1).live("place_order", 1).live("agent", 2)'
QUERIES = (
    "SELECT address, kind, outcome FROM crossings ORDER BY seq",
    "SELECT tool, arguments FROM tool_calls",
    "SELECT name, crossings, input_tokens + output_tokens AS tokens FROM runs",
)


class NotAsTold(Exception):
    """Something in the demo went otherwise than its text says."""


def main() -> int:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), ModelServer(trade.model) as server:
        try:
            record_the_incident(server)
            look_at_it()
            replay_all_of_it(server)
            replay_with_the_fault(server)
            replay_with_the_fix(server)
        except (NotAsTold, AssertionError, OtelReplayError) as fault:
            print(f"\nThis did not go as told: {fault}", file=sys.stderr)
            return 1
    what_next(time.monotonic() - began)
    return 0


def record_the_incident(server: ModelServer) -> None:
    heading("1. Record", 'with record("trade-notional") as run: ...')
    say(
        f'A trading agent is asked: "{trade.TASK}" Its model is played by a small local server, its client is '
        "the real openai package."
    )
    with record(trade.NAME, store=STORE) as run:
        answer = trade.run_agent(server.url, trade.unguarded)
        run.answer(answer)
    say(f'The agent answers: "{answer}" The model was asked {server.count} times.')
    expect(server.count == 2, f"the model was asked {server.count} times")
    expect(answer.startswith("Bought 5000"), f"the agent answered {answer!r}")


def look_at_it() -> None:
    heading("2. Ask", "otel-replay sql ...")
    with open_store(STORE) as store:
        for query in QUERIES:
            relation = store.sql(query)
            print(f"   {query};")
            print(textwrap.indent(table(relation.columns, relation.fetchall()), "   "))
            expect(len(store.sql(query).fetchall()) > 0, f"no answer to {query}")


def replay_all_of_it(server: ModelServer) -> None:
    heading("3. Replay everything", 'with replay("trade-notional"): ...')
    asked_before = server.count
    with replay(trade.NAME, store=STORE) as session:
        answer = trade.run_agent(server.url, trade.unguarded)
        session.answer(answer)
    asked = server.count - asked_before
    say(f"The same answer again, and the model was asked {asked} times.")
    show(session)
    expect(asked == 0, f"a full replay asked the model {asked} times")
    expect(session.report.verdict == "passed", session.report.text())


def replay_with_the_fault(server: ModelServer) -> None:
    heading("4. Replay with the tool live", PLAN)
    say("The model's first answer comes from the record, the tool runs for real. Does the damage come back?")
    try:
        with replay(trade.NAME, trade.plan(), store=STORE) as session:
            trade.run_agent(server.url, trade.unguarded)
            trade.assert_safe(session)
    except AssertionError as failed:
        say(f"Yes. AssertionError: {failed}")
        show(session)
        return
    raise NotAsTold("the unguarded tool passed")


def replay_with_the_fix(server: ModelServer) -> None:
    heading("5. The same with the fixed tool", PLAN)
    with replay(trade.NAME, trade.plan(), store=STORE) as session:
        answer = trade.run_agent(server.url, trade.guarded)
        trade.assert_safe(session)
    say(f'No damage. The model, asked live with the new result, says: "{answer}"')
    show(session)
    expect(session.report.verdict == "passed", session.report.text())


def what_next(seconds: float) -> None:
    heading(f"All of this took {seconds:.1f} s. What next", "")
    for command, why in (
        ("less bench/incidents/trade.py", "the agent, its tool and the fix"),
        (f".venv/bin/otel-replay show bench/incidents/fixtures/{trade.NAME}.otlp.jsonl", "the committed recording"),
        (".venv/bin/python -m pytest tests/incidents", "seven such incidents as tests"),
        (".venv/bin/otel-replay record my-run -- python my_agent.py", "record an agent of yours"),
    ):
        print(f"   {command}\n      {why}")


# Telling -------------------------------------------------------------------------------------------------


def heading(title: str, code: str) -> None:
    print(f"\n{title}" + (f"   {code}" if code else ""))


def say(words: str) -> None:
    print(textwrap.fill(words, 96, initial_indent="   ", subsequent_indent="   "))


def show(session: ReplaySession) -> None:
    for line in session.report.text().splitlines():
        print("   | " + (line if len(line) <= LINE_CHARS_MAX else line[: LINE_CHARS_MAX - 1] + "…"))


def table(columns: list[str], rows: list[tuple[object, ...]]) -> str:
    """Return rows as text, in columns as wide as their widest value."""
    lines = [columns, *([str(value) for value in row] for row in rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(columns))]
    return "\n".join(
        "  " + "  ".join(value.ljust(w) for value, w in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise NotAsTold(otherwise)


if __name__ == "__main__":
    sys.exit(main())
