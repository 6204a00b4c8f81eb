"""`python -m bench [NAME ...]`: measure, print a table, keep the figures in bench/results/NAME.json.

Without a name, all.
"""

from __future__ import annotations

import argparse
import json
import sys
from importlib import import_module

from bench import measure

GROUPS = ("recording", "serving", "starting", "sinking", "querying", "replaying", "overhead", "peers")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(GROUPS)}")
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
    print(measure.table(figures))
    print(f"\n{json.dumps(measure.machine())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
