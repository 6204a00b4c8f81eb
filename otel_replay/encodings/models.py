"""Pydantic models (version 2) and addresses, and with them the answers of the OpenAI and Anthropic SDKs.

A model is its `__dict__`, its set fields, its extra fields and its private attributes (pydantic's own copy and
pickle keep the same four). It is rebuilt without validation; no serializer runs, so none can warn. A field that
the class has gained since, with a default, gets that default, as it would on the recorded wire data.
"""

from __future__ import annotations

import sys
from typing import Any

from otel_replay.encodings import names
from otel_replay.encodings.classes import set_state, state_of
from otel_replay.encodings.core import Decoder, EncodeFn, Encoder, Lost, Tree, decodes, family
from otel_replay.encodings.exceptions import chain, restore_chain
from otel_replay.errors import Unservable


def _base() -> Any:
    module = sys.modules.get("pydantic.main")
    return vars(module).get("BaseModel") if module is not None else None


def _is_model(cls: type) -> bool:
    base = _base()
    return base is not None and issubclass(cls, base)


@family(25)
def _pick_model(cls: type) -> EncodeFn | None:
    return _model if _is_model(cls) else None


def _own(value: Any, name: str) -> Any:
    try:
        return object.__getattribute__(value, name)
    except AttributeError:
        return None


def _model(value: Any, to: Encoder) -> Tree:
    cls: Any = type(value)
    generic = cls.__dict__.get("__pydantic_generic_metadata__") or {}
    origin, args = generic.get("origin"), generic.get("args") or ()
    tree: dict[str, Tree] = {"$": "model", "t": names.name_of(origin or cls)}
    if origin is not None:
        tree["args"] = [to.value(arg, "[type argument]") for arg in args]
    tree["v"] = to.mapping(value.__dict__)
    # LiteLLM deletes fields from its models: a field that is not there is not one that the class has gained since.
    absent = [name for name in cls.__pydantic_fields__ if name not in value.__dict__]
    if absent:
        tree["absent"] = sorted(absent)
    # A set, sorted: its order differs from process to process, and its record must not.
    tree["set"] = sorted(to.items(_own(value, "__pydantic_fields_set__") or ()), key=str)
    extra, private = _own(value, "__pydantic_extra__"), _own(value, "__pydantic_private__")
    if extra is not None:
        tree["extra"] = to.mapping(extra)
    if private is not None:
        tree["private"] = to.mapping(_without_undefined(private))
    return tree


def _without_undefined(private: dict[str, Any]) -> dict[str, Any]:
    return {name: item for name, item in private.items() if type(item).__name__ != "PydanticUndefinedType"}


@decodes("model")
def _from_model(tree: dict[str, Tree], to: Decoder) -> object:
    cls: Any = names.resolve(tree.get("t"), _is_model, "pydantic model")
    if "args" in tree:
        cls = _parametrized(cls, tuple(to.decoded(tree, "args", list)))
    fields: dict[str, Any] = to.decoded(tree, "v", dict)
    absent = to.part(tree, "absent", list) if "absent" in tree else ()
    for name, field in cls.__pydantic_fields__.items():
        if name in fields or name in absent:
            continue
        if field.is_required() or field.default_factory is not None:
            raise Unservable(f"{names.readable(cls)} has a field {name!r} now that the record does not hold")
        fields[name] = field.default
    made = object.__new__(cls)
    object.__setattr__(made, "__dict__", fields)
    object.__setattr__(made, "__pydantic_fields_set__", set(to.decoded(tree, "set", list)))
    for slot in ("extra", "private"):
        item = to.decoded(tree, slot, dict) if slot in tree else None
        object.__setattr__(made, f"__pydantic_{slot}__", item)
    return made


def _parametrized(origin: Any, args: tuple[Any, ...]) -> Any:
    cls = origin[args]
    if not isinstance(cls, type) or not _is_model(cls):
        raise Unservable(f"{names.readable(origin)} cannot be parametrized as recorded")
    return cls


# Validation errors -----------------------------------------------------------------------------------------
# Built in C, so neither copied nor pickled; made again from the list of errors that they tell.


def _error_class() -> Any:
    module = sys.modules.get("pydantic_core")
    return vars(module).get("ValidationError") if module is not None else None


@family(15)
def _pick_validation_error(cls: type) -> EncodeFn | None:
    return _validation_error if cls is _error_class() else None


def _validation_error(value: Any, to: Encoder) -> Tree:
    told = value.errors(include_url=False)
    lines = [{key: line[key] for key in ("type", "loc", "input", "ctx") if key in line} for line in told]
    mode = next((mode for mode in ("python", "json") if _says_the_same(value, lines, mode)), None)
    if mode is None:
        raise Lost("a validation error with errors of a custom type cannot be rebuilt")
    tree: dict[str, Tree] = {"$": "validation-error", "title": to.value(value.title), "mode": mode}
    tree["errors"] = to.items([to.hold(line) for line in lines])
    tree["state"] = to.state(state_of(value))
    chain(value, tree, to)
    return tree


def _says_the_same(value: Any, lines: list[dict[str, Any]], mode: str) -> bool:
    try:
        return str(_error_class().from_exception_data(value.title, lines, mode)) == str(value)
    except (KeyError, TypeError, ValueError):
        return False


@decodes("validation-error")
def _from_validation_error(tree: dict[str, Tree], to: Decoder) -> object:
    cls = _error_class()
    if cls is None:
        raise Unservable("the record holds a pydantic validation error, and pydantic is not imported here")
    lines, title = to.decoded(tree, "errors", list), to.decoded(tree, "title", str)
    made = cls.from_exception_data(title, lines, to.part(tree, "mode", str))
    set_state(made, to.decoded(tree, "state", dict))
    restore_chain(made, tree, to)
    return made


# Addresses -------------------------------------------------------------------------------------------------
# `AnyUrl` and its kind: in older versions of pydantic the class in C itself, in newer ones a class around one.


def _address_classes() -> tuple[type, ...]:
    core, networks = sys.modules.get("pydantic_core"), sys.modules.get("pydantic.networks")
    found = [vars(core).get(name) for name in ("Url", "MultiHostUrl")] if core is not None else []
    found += [vars(networks).get(name) for name in ("_BaseUrl", "_BaseMultiHostUrl")] if networks is not None else []
    return tuple(cls for cls in found if isinstance(cls, type))


def _is_address(cls: type) -> bool:
    return issubclass(cls, _address_classes())


@family(26)
def _pick_address(cls: type) -> EncodeFn | None:
    return _address if _is_address(cls) else None


def _address(value: Any, _: Encoder) -> Tree:
    return {"$": "address", "t": names.name_of(type(value)), "v": str(value)}


@decodes("address")
def _from_address(tree: dict[str, Tree], to: Decoder) -> object:
    cls: Any = names.resolve(tree.get("t"), _is_address, "pydantic address")
    text = to.part(tree, "v", str)
    if cls.__module__.partition(".")[0] == "pydantic_core":
        return cls(text)
    core = sys.modules["pydantic_core"]
    several = issubclass(cls, vars(sys.modules["pydantic.networks"])["_BaseMultiHostUrl"])
    made = object.__new__(cls)  # as the class itself does after its check, which a recorded value has passed
    made._url = (vars(core)["MultiHostUrl"] if several else vars(core)["Url"])(text)
    return made
