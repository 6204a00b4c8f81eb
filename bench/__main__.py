"""`python -m bench [NAME ...]`: measure, print a table, keep the figures in bench/results/NAME.json, draw the plots.

Without a name, all. The table in bench/README.md holds what was kept last of each group.
"""

from __future__ import annotations

import argparse
import json
import sys
from importlib import import_module
from pathlib import Path

from bench import drawing, measure

GROUPS = (
    "recording",
    "serving",
    "starting",
    "sinking",
    "querying",
    "replaying",
    "overhead",
    "real_model",
    "peers",
    "growing",
)
README = Path(__file__).parent / "README.md"
BEGIN, END = "<!-- measured -->", "<!-- /measured -->"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(GROUPS))
    parser.add_argument("--large", action="store_true", help="also the sizes that take minutes")
    options = parser.parse_args()
    wanted = options.names or GROUPS
    measure.LARGE = options.large
    unknown = set(wanted) - set(GROUPS)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    figures = []
    for name in wanted:
        found = import_module(f"bench.figures.{name}").measured()
        measure.keep(name, found)
        figures += found
        print(f"{name}: {len(found)} figures", file=sys.stderr)
        write_down()
    print(measure.table(figures))
    print(f"\n{json.dumps(measure.machine())}")
    return 0


def write_down() -> None:
    """Draw the plots, and put what was kept last of each group into the README."""
    drawing.main()
    before, _, rest = README.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    table = measure.table([figure for group in GROUPS for figure in measure.kept(group)])
    README.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}")


if __name__ == "__main__":
    sys.exit(main())
