"""Something to do as soon as the program has imported a library, which we never import ourselves."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class ThenLoader(Loader):
    """The library's own loader, with one thing to do after the library has run."""

    def __init__(self, inner: Any, then: Callable[[], None]) -> None:
        self._inner = inner
        self._then = then

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._inner.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        if spec is not None:
            spec.loader = self._inner
        module.__loader__ = self._inner
        self._inner.exec_module(module)
        self._then()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class WhenImported(MetaPathFinder):
    """Finds nothing by itself: lets the others find the module `name`, and does `then` after it has run."""

    def __init__(self, name: str, then: Callable[[], None]) -> None:
        self._name = name
        self._then = then
        sys.meta_path.insert(0, self)

    def forget(self) -> None:
        """Do nothing any more."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        self.forget()
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = ThenLoader(spec.loader, self._then)
        return spec
