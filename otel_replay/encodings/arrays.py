"""numpy arrays and scalars, pandas frames, series and moments. Looked up only where the program has imported them.

Small arrays of plain numbers are lists that people can read; others are their bytes. A frame is an Arrow stream
(the IPC format of arrow.apache.org), read back at once while recording: one that would not come back equal, with
the same types and index, is lost.
"""

from __future__ import annotations

import base64
import sys
from typing import Any

from otel_replay.encodings.core import Decoder, EncodeFn, Encoder, Lost, Tree, decodes, family
from otel_replay.errors import Unservable

_READABLE_MAX = 256


def _library(name: str) -> Any:
    """Return an imported library, or None. Raises nothing: absence is an answer."""
    return sys.modules.get(name)


def _needed(name: str) -> Any:
    module = _library(name)
    if module is None:
        raise Unservable(f"the record holds a value of {name}, which is not imported here; import it first")
    return module


@family(50)
def _pick_array(cls: type) -> EncodeFn | None:
    top = cls.__module__.partition(".")[0]
    if top == "numpy" and (numpy := _library("numpy")) is not None:
        if cls is numpy.ndarray:
            return _array
        if issubclass(cls, numpy.dtype):
            return _dtype
        return _scalar if issubclass(cls, numpy.generic) else None
    if top == "pandas" and (pandas := _library("pandas")) is not None:
        picked = {pandas.DataFrame: _frame, pandas.Series: _series, pandas.Timestamp: _moment}
        picked |= {pandas.Timedelta: _moment, type(pandas.NaT): _missing, type(pandas.NA): _missing}
        return picked.get(cls)
    return None


# numpy -----------------------------------------------------------------------------------------------------


def _descr(dtype: Any, to: Encoder) -> Tree:
    if dtype.hasobject and dtype.kind != "O":
        raise Lost(f"an array of dtype {dtype} holds objects inside records and is not kept")
    if dtype.kind not in "biufcSUMmVO":
        raise Lost(f"an array of dtype {dtype} is not kept")
    if dtype.metadata:
        raise Lost("a dtype with metadata is not kept")
    found = _library("numpy.lib.format").dtype_to_descr(dtype)
    if _needed("numpy.lib.format").descr_to_dtype(found) != dtype:
        raise Lost(f"an array of dtype {dtype} is not kept")
    return to.value(to.hold(found))


def _dtype_from(tree: dict[str, Tree], to: Decoder) -> Any:
    _needed("numpy")
    dtype = _needed("numpy.lib.format").descr_to_dtype(to.value(tree.get("dtype")))
    if dtype.hasobject and dtype.kind != "O":
        raise Unservable("the recorded array has objects inside records")
    return dtype


def _dtype(value: Any, to: Encoder) -> Tree:
    return {"$": "dtype", "dtype": _descr(value, to)}


@decodes("dtype")
def _from_dtype(tree: dict[str, Tree], to: Decoder) -> object:
    return _dtype_from(tree, to)


def _array(value: Any, to: Encoder) -> Tree:
    tree = {"$": "ndarray", "dtype": _descr(value.dtype, to), "shape": list(value.shape)}
    readable = value.dtype.kind in "biuf" and value.dtype.itemsize <= 8 and value.size <= _READABLE_MAX
    if readable or value.dtype.kind == "O":
        return {**tree, "v": to.items(value.ravel().tolist() if value.dtype.kind != "O" else list(value.flat))}
    return {**tree, "base64": base64.b64encode(value.tobytes()).decode()}


@decodes("ndarray")
def _from_array(tree: dict[str, Tree], to: Decoder) -> object:
    numpy = _needed("numpy")
    dtype = _dtype_from(tree, to)
    shape = tuple(to.part(tree, "shape", list))
    if "v" not in tree:
        if dtype.kind == "O":
            raise Unservable("the recorded array of objects is malformed")
        raw = base64.b64decode(to.part(tree, "base64", str), validate=True)
        return numpy.frombuffer(raw, dtype).reshape(shape).copy()
    items = to.decoded(tree, "v", list)
    made = numpy.empty(len(items), dtype)
    for index, item in enumerate(items):
        made[index] = item
    return made.reshape(shape)


def _scalar(value: Any, to: Encoder) -> Tree:
    tree = {"$": "numpy", "dtype": _descr(value.dtype, to)}
    if value.dtype.kind in "biuf" and value.dtype.itemsize <= 8:
        return {**tree, "v": to.value(value.item())}
    if value.dtype.kind == "O":
        raise Lost("a numpy scalar of objects is not kept")
    return {**tree, "base64": base64.b64encode(value.tobytes()).decode()}


@decodes("numpy")
def _from_scalar(tree: dict[str, Tree], to: Decoder) -> object:
    numpy = _needed("numpy")
    dtype = _dtype_from(tree, to)
    if "v" in tree:
        return dtype.type(to.decoded(tree, "v", bool, int, float))
    raw = base64.b64decode(to.part(tree, "base64", str), validate=True)
    if dtype.itemsize == 0:
        return dtype.type()
    return numpy.frombuffer(raw, dtype)[0]


# pandas ----------------------------------------------------------------------------------------------------


def _arrow() -> Any:
    try:
        import pyarrow  # the one heavy import: only a program that holds frames comes here
        import pyarrow.ipc
    except ImportError as error:
        raise Lost("a DataFrame is kept through Arrow, and pyarrow is not installed") from error
    return pyarrow


def _stream(frame: Any) -> dict[str, Tree]:
    """Return the frame's Arrow stream, and what Arrow has no word for: a range of columns, the index's frequency."""
    arrow = _arrow()
    try:
        table = arrow.Table.from_pandas(frame)
    except (arrow.ArrowException, TypeError, ValueError) as error:
        raise Lost(f"the frame cannot be kept as Arrow: {str(error)[:200]}") from error
    sink = arrow.BufferOutputStream()
    with arrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    tree: dict[str, Tree] = {"base64": base64.b64encode(sink.getvalue().to_pybytes()).decode()}
    columns = frame.columns
    if type(columns) is _needed("pandas").RangeIndex and columns.name is None:
        tree["columns"] = [columns.start, columns.stop, columns.step]
    if type(frame.index).__name__ in ("DatetimeIndex", "TimedeltaIndex") and frame.index.freq is not None:
        tree["freq"] = frame.index.freqstr
    if not _same_frame(frame, _unstream(tree)):
        raise Lost("the frame would not come back from Arrow with the same values, types and index")
    return tree


def _unstream(tree: dict[str, Tree]) -> Any:
    with _arrow().ipc.open_stream(base64.b64decode(tree["base64"], validate=True)) as reader:
        frame = reader.read_pandas()
    if "columns" in tree:
        frame.columns = _needed("pandas").RangeIndex(*tree["columns"])
    if "freq" in tree:
        frame.index.freq = tree["freq"]
    return frame


def _same_frame(left: Any, right: Any) -> bool:
    try:
        if not (left.equals(right) and list(left.dtypes) == list(right.dtypes) and left.attrs == right.attrs):
            return False
        if not all(_same_index(*pair) for pair in ((left.index, right.index), (left.columns, right.columns))):
            return False
    except (TypeError, ValueError):  # arrays in cells have no truth value
        return False
    mixed = [at for at, dtype in enumerate(left.dtypes) if dtype.kind == "O"]
    return all(list(map(type, left.iloc[:, at])) == list(map(type, right.iloc[:, at])) for at in mixed)


def _same_index(left: Any, right: Any) -> bool:
    freq = getattr(left, "freq", None) == getattr(right, "freq", None)
    return type(left) is type(right) and left.dtype == right.dtype and left.identical(right) and freq


def _frame(value: Any, _: Encoder) -> Tree:
    return {"$": "DataFrame", **_stream(value)}


def _series(value: Any, to: Encoder) -> Tree:
    return {"$": "Series", "name": to.value(value.name, ".name"), **_stream(value.to_frame("v"))}


@decodes("DataFrame", "Series")
def _from_frame(tree: dict[str, Tree], to: Decoder) -> object:
    _needed("pandas")
    to.part(tree, "base64", str)
    try:
        frame = _unstream(tree)
    except Lost as error:
        raise Unservable(str(error)) from error
    if tree["$"] == "DataFrame":
        return frame
    series = frame.iloc[:, 0]
    series.name = to.value(tree.get("name"))
    return series


def _moment(value: Any, to: Encoder) -> Tree:
    tree = {"$": f"pandas-{type(value).__name__}", "v": str(value), "unit": value.unit}
    if type(value).__name__ == "Timedelta":
        return {**tree, "count": value.as_unit(value.unit)._value}
    tree["count"] = value._value
    return {**tree, "tz": to.value(value.tzinfo, ".tzinfo"), **({"fold": value.fold} if value.fold else {})}


@decodes("pandas-Timestamp", "pandas-Timedelta")
def _from_moment(tree: dict[str, Tree], to: Decoder) -> object:
    pandas = _needed("pandas")
    count, unit = to.part(tree, "count", int), to.part(tree, "unit", str)
    if tree["$"] == "pandas-Timedelta":
        return pandas.Timedelta(count, unit=unit).as_unit(unit)
    made = pandas.Timestamp(count, unit=unit).as_unit(unit)
    zone = to.value(tree.get("tz"))
    made = made if zone is None else made.tz_localize("UTC").tz_convert(zone)
    return made.replace(fold=tree["fold"]) if "fold" in tree else made


def _missing(value: Any, _: Encoder) -> Tree:
    return {"$": "pandas-missing", "v": str(value)}


@decodes("pandas-missing")
def _from_missing(tree: dict[str, Tree], to: Decoder) -> object:
    pandas = _needed("pandas")
    return {"NaT": pandas.NaT, "<NA>": pandas.NA}[to.part(tree, "v", str)]
