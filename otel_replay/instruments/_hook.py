"""Instrumenting each library when the program imports it, so that nothing is imported which the program does not."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from otel_replay.imports import ThenLoader
from otel_replay.instruments import KNOWN, instrument

_log = logging.getLogger("otel_replay")


def instrument_when_imported() -> None:
    """Instrument what the program has imported, and whatever else is known as soon as it is imported."""
    # Ours first and whole: a library that is imported while we are would find us half made.
    importlib.import_module("otel_replay.instruments._httplib")
    waiting: dict[str, str] = {}
    for name, (library, _distribution) in KNOWN.items():
        if library in sys.modules:
            _contained(name)
        else:
            waiting[library] = name
    if waiting and not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder(waiting))


def _contained(name: str) -> None:
    try:
        instrument(name)
    except Exception as fault:  # noqa: BLE001 - the program's import must go on; `doctor` shows what is not covered
        _log.warning("%s cannot be instrumented: %r; its calls are not recorded", name, fault)


class _Finder(MetaPathFinder):
    """Finds nothing by itself: lets the others find, and looks over the loader's shoulder."""

    def __init__(self, waiting: dict[str, str]) -> None:
        self._waiting = waiting

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        name = self._waiting.pop(fullname, None)
        if name is None:
            return None
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = ThenLoader(spec.loader, lambda: _contained(name))
        return spec
