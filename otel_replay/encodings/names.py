"""Names of classes and functions in recordings, and the only way from a name back to the thing.

A recording is untrusted. A name is looked up only among modules that the program has imported, among classes that
this process has encoded, and in packages that the project allows by name. Nothing else is imported, no code of a
module runs (no `__getattr__`), and what is found must be of the family that the tag tells.
"""

from __future__ import annotations

import importlib
import sys
import weakref
from collections.abc import Callable, Iterable
from pathlib import PurePath
from types import BuiltinFunctionType, FunctionType, ModuleType, NoneType
from typing import Any

from otel_replay.errors import Unservable

_allowed: set[str] = set()
_seen: weakref.WeakValueDictionary[str, type] = weakref.WeakValueDictionary()
_MAIN = ("__main__", "__mp_main__")


def allow_packages(packages: Iterable[str]) -> None:
    """Allow modules of these packages to be imported when a recording names a class in them.

    The names come from `[tool.otel_replay] allow_packages` of the project, never from a recording.
    """
    _allowed.update(packages)


def main_name() -> str:
    """Return the name under which the program's main module can be imported; "__main__" where there is none."""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None and isinstance(spec.name, str):
        return str(spec.name)
    file = getattr(main, "__file__", None)
    return PurePath(file).stem if isinstance(file, str) and file else "__main__"


def module_of(thing: type | Callable[..., object]) -> str:
    """Return the module name of a class or function, importable also where it is the main module."""
    if thing is NoneType:
        return "types"
    module = getattr(thing, "__module__", None) or "builtins"
    return main_name() if module in _MAIN else str(module)


def name_of(cls: type) -> str:
    """Return "module:Qualname", and remember the class: one that has no importable name is found in this process."""
    name = f"{module_of(cls)}:{cls.__qualname__}"
    _seen[name] = cls
    return name


def readable(cls: type) -> str:
    """Return the class's name for people: builtins without their module."""
    module = module_of(cls)
    name = cls.__qualname__ if module == "builtins" else f"{module}.{cls.__qualname__}"
    return name.encode("utf-8", "backslashreplace").decode()


def _modules(name: str) -> Iterable[ModuleType]:
    if name == main_name():
        yield from (sys.modules[main] for main in _MAIN if main in sys.modules)
    if name in sys.modules:
        yield sys.modules[name]
    elif any(name == package or name.startswith(package + ".") for package in _allowed):
        try:
            yield importlib.import_module(name)
        except Exception as error:
            raise Unservable(f"the recorded module {name} cannot be imported: {error!r}") from error


def _walk(module: ModuleType, qualname: str) -> object:
    found: object = module
    for part in qualname.split("."):
        # Only what stands in the namespace itself: a module's or a metaclass's __getattr__ would run foreign code.
        space = vars(found) if isinstance(found, ModuleType | type) else {}
        found = space.get(part)
    return found.__func__ if isinstance(found, staticmethod | classmethod) else found


def find(name: str) -> object:
    """Return what "module:Qualname" names, or None. Imports only what the project allows."""
    module, _, qualname = name.partition(":")
    if not module or not qualname:
        return None
    for candidate in _modules(module):
        found = _walk(candidate, qualname)
        if found is not None:
            return found
    return _seen.get(name)


def resolve(name: object, belongs: Callable[[type], bool], family: str) -> type:
    """Return the class that a recording names. Raises Unservable unless it is there and of the expected family."""
    if type(name) is not str:
        raise Unservable(f"the record names a class by {type(name).__name__}, not by text")
    found = find(name)
    shown = ascii(name)[1:-1][:200]
    if found is None:
        why = (
            "it was defined inside a function"
            if "<locals>" in name
            else "import its module, or allow its package under [tool.otel_replay] allow_packages"
        )
        raise Unservable(f"the recorded class {shown} is not there: {why}")
    if not isinstance(found, type) or not belongs(found):
        raise Unservable(f"the record says that {shown} is a {family}, and here it is not")
    return found


# Functions and classes as values ---------------------------------------------------------------------------

_VALUE_MODULES = frozenset(
    (
        *("builtins", "types", "typing", "datetime", "decimal", "fractions", "uuid", "collections", "pathlib"),
        *("enum", "operator", "math", "re"),
    )
)
_NOT_VALUES = frozenset(
    f"builtins:{name}"
    for name in ("eval", "exec", "compile", "open", "input", "breakpoint", "__import__", "exit", "function", "code")
) | {"types:FunctionType", "types:LambdaType", "types:CodeType"}


def may_be_value(name: str) -> bool:
    """True where a class or function of this name may stand in a recording as a value of its own.

    Of the standard library only harmless modules: a hand-made recording must not hand `os.system` to the program.
    """
    module = name.partition(":")[0]
    if module in _VALUE_MODULES:
        return name not in _NOT_VALUES
    top = module.partition(".")[0]
    return top not in sys.stdlib_module_names or top in (main_name(), "__main__")


def is_function(thing: object) -> bool:
    """True for functions written in Python or built in."""
    return isinstance(thing, FunctionType | BuiltinFunctionType)


def name_of_function(function: Any) -> str:
    """Return "module:qualname" of a function, as it names itself."""
    return f"{module_of(function)}:{function.__qualname__}"
