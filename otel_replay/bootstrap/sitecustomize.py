"""Runs when an interpreter starts under `otel-replay record` or `otel-replay replay`.

It stands first on PYTHONPATH, so it hides the program's own `sitecustomize`: that one is run first.
"""

import importlib.util
import os
import sys


def _chain() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    for folder in sys.path:
        if os.path.abspath(folder or ".") == here:
            continue
        path = os.path.join(folder or ".", "sitecustomize.py")
        if os.path.isfile(path):
            spec = importlib.util.spec_from_file_location("sitecustomize", path)
            if spec is not None and spec.loader is not None:
                spec.loader.exec_module(importlib.util.module_from_spec(spec))
            return


_chain()
if os.environ.get("OTEL_REPLAY_MODE", "live") != "live" or os.environ.get("OTEL_REPLAY_LANE"):
    from otel_replay.auto import start

    start()
