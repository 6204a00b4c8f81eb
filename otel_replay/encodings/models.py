"""Pydantic models (version 2), and with them the answers of the OpenAI and Anthropic SDKs.

A model is its `__dict__`, its set fields, its extra fields and its private attributes (pydantic's own copy and
pickle keep the same four). It is rebuilt without validation; no serializer runs, so none can warn. A field that
the class has gained since, with a default, gets that default, as it would on the recorded wire data.
"""

from __future__ import annotations

import sys
from typing import Any

from otel_replay.encodings import names
from otel_replay.encodings.core import Decoder, EncodeFn, Encoder, Tree, decodes, family
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
    for name, field in cls.__pydantic_fields__.items():
        if name in fields:
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
