"""Make the incidents' fixtures anew: `python -m bench.incidents.record [NAME ...]`.

Each agent runs once, with the tool as it was on the day, against a played model, in an empty folder. Fixtures change
only where an incident or the format of recordings has changed; what is committed is otherwise kept.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from bench.incidents import ALL
from bench.incidents._common import fixture
from otel_replay import record
from otel_replay.exporting import spans_of, write_fixture
from otel_replay.testing import ModelServer

if TYPE_CHECKING:
    from bench.incidents._common import Incident


def record_into(store: Path, incident: Incident) -> str:
    """Run the incident as on the day, record it into `store`, and return the agent's answer.

    The tools work in the current directory, which `incident.prepare` fills.
    """
    incident.prepare(Path.cwd())
    with ModelServer(incident.model) as server, record(incident.NAME, store=store) as run:
        answer = incident.run_agent(server.url, incident.unguarded)
        run.answer(answer)
    return answer


def main(names: list[str]) -> None:
    home = Path.cwd()
    for incident in ALL:
        if names and incident.NAME not in names:
            continue
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                answer = record_into(Path(folder, "store"), incident)
            finally:
                os.chdir(home)
            export(Path(folder, "store"), incident.NAME, fixture(incident.NAME))
        print(f"{incident.NAME}: {answer}")


def export(store: Path, name: str, target: Path) -> None:
    """Write the run `name` of `store` to `target` as OTLP JSON Lines, a line a span, in recorded order."""
    target.parent.mkdir(exist_ok=True)
    write_fixture(target, spans_of(name, store=store))


if __name__ == "__main__":
    main(sys.argv[1:])
