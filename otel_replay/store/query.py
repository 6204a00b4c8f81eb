"""DuckDB over a consistent list of files and the rows of live journals. In memory: nothing is ever locked.

Source of the engine's behaviour: duckdb.org/docs (read_parquet, union_by_name, TRY).
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import duckdb

from otel_replay.errors import StoreError
from otel_replay.location import is_utf8
from otel_replay.store import schema
from otel_replay.store.blobs import BLOBS, SUFFIX
from otel_replay.store.doubles import KIN_COLUMNS
from otel_replay.store.folder import Listing
from otel_replay.store.parquet import FileInfo, table_of
from otel_replay.store.parting import Key, Place, key_of
from otel_replay.store.rows import Row
from otel_replay.store.storage import Storage
from otel_replay.store.views import FORKS, MACROS, VIEWS, calls_once

_QUOTE = str.maketrans({"'": "''"})
_GLOB = str.maketrans({"[": "[[]", "*": "[*]", "?": "[?]", "'": "''"})
_INSERT_ROWS = 500
_KEY_COLUMNS = ("run_id", "lane", "seq", "start_ns")


def may_be_a_file(fault: duckdb.Error) -> bool:
    """True where `fault` may come from a file that vanished or is damaged, not from the query as it was asked."""
    return isinstance(fault, duckdb.IOException) or not isinstance(fault, (duckdb.ProgrammingError, duckdb.DataError))


def connect(storage: Storage) -> duckdb.DuckDBPyConnection:
    """Return a connection to an empty database in memory that reads `storage` and fetches no extensions.

    Raises StoreError where no query could name the store's files.
    """
    if not is_utf8(storage.root):
        raise StoreError(f"{storage.shown(storage.root)} is not UTF-8, and no query can name files there: rename it")
    connection = duckdb.connect(":memory:")
    storage.attach(connection)
    for setting in (
        "SET autoinstall_known_extensions = false",
        "SET parquet_metadata_cache = true",
        # Else `.tmp` in whatever folder the program runs in.
        f"SET temp_directory = '{tempfile.gettempdir().translate(_QUOTE)}'",
        _BLOB.format(storage.address(storage.root / BLOBS).translate(_GLOB), SUFFIX),
    ):
        connection.execute(setting)
    columns = ", ".join(f"{item.name} {_SQL_TYPES[str(item.type)]}" for item in schema.SCHEMA)
    for statement in (
        f"CREATE TABLE live ({columns})",
        "CREATE TABLE superseded (file VARCHAR, row BIGINT)",
        "CREATE TABLE live_runs (run_id VARCHAR)",
        "CREATE TABLE noted (run_id VARCHAR, verdict VARCHAR, pinned BOOLEAN)",
        "CREATE VIEW stored AS SELECT * FROM live",
        "CREATE VIEW near AS SELECT * FROM live",
        *MACROS,
        FORKS,
        *VIEWS,
    ):
        connection.execute(statement)
    return connection


_BLOB = """CREATE MACRO blob(name) AS TABLE SELECT sha256, media_type, bytes, text
  FROM read_parquet('{}/' || name || '{}') WHERE sha256 = name"""
"""blob('9f86d0...'): the large string that a reference of that name stands for."""
_SQL_TYPES = {"string": "VARCHAR", "int64": "BIGINT", "int32": "INTEGER", "bool": "BOOLEAN"}


def scan(files: Iterable[FileInfo], *, places: bool = False) -> str:
    """Return SQL that reads `files` together by column name."""
    listed = ", ".join(f"'{info.address.translate(_GLOB)}'" for info in files)
    more = ", filename = true, file_row_number = true" if places else ""
    return f"read_parquet([{listed}], union_by_name = true, hive_partitioning = false{more})"


def define(
    connection: duckdb.DuckDBPyConnection,
    listing: Listing,
    live: Sequence[Row],
    superseded: Mapping[str, Iterable[int]],
    live_runs: Iterable[str],
    notes: Sequence[tuple[str, str | None, bool | None]],
) -> None:
    """Point the views at `listing` and the rows of live journals.

    `superseded` names rows that other rows take the place of; `notes` are (run id, verdict, pinned).
    """
    connection.execute("DELETE FROM live")
    if live:
        connection.register("incoming", table_of(live))
        try:
            connection.execute("INSERT INTO live SELECT * FROM incoming")
        finally:
            connection.unregister("incoming")
    _fill(connection, "superseded", [(name, row) for name, rows in superseded.items() for row in rows])
    _fill(connection, "live_runs", [(run_id,) for run_id in sorted(set(live_runs))])
    _fill(connection, "noted", notes)
    # The views over it were made with the connection.
    connection.execute(rows_that_count("stored", listing.files, superseded))
    if not all(info.settled for info in listing.files.values()):
        connection.execute("SET VARIABLE unsettled = true")
        _execute_all(connection, calls_once(settled=False))
    elif connection.execute("SELECT getvariable('unsettled')").fetchall() == [(True,)]:  # until a compaction
        connection.execute("RESET VARIABLE unsettled")
        _execute_all(connection, calls_once(settled=True))


def _execute_all(connection: duckdb.DuckDBPyConnection, statements: Iterable[str]) -> None:
    for statement in statements:
        connection.execute(statement)


def _fill(connection: duckdb.DuckDBPyConnection, name: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Put `rows` into the table `name` instead of what is there.

    Not by way of Arrow: making an array of Python values imports pandas where it is installed, which takes longer
    than everything else that opening a store does.
    """
    connection.execute(f"DELETE FROM {name}")  # noqa: S608  # our own names
    for start in range(0, len(rows), _INSERT_ROWS):
        some = rows[start : start + _INSERT_ROWS]
        marks = ", ".join(f"({', '.join('?' * len(row))})" for row in some)
        connection.execute(f"INSERT INTO {name} VALUES {marks}", [value for row in some for value in row])  # noqa: S608


def places_table(connection: duckdb.DuckDBPyConnection, name: str, places: Sequence[Place]) -> None:
    """Make the table `name` (file, row) of `places`."""
    connection.execute(f"CREATE OR REPLACE TABLE {name} (file VARCHAR, row BIGINT)")
    _fill(connection, name, places)


def ids_table(connection: duckdb.DuckDBPyConnection, name: str, ids: Sequence[str]) -> None:
    """Make the table `name` (id) of `ids`."""
    connection.execute(f"CREATE OR REPLACE TABLE {name} (id VARCHAR)")
    _fill(connection, name, [(run_id,) for run_id in ids])


def rows_that_count(view: str, files: Mapping[str, FileInfo], superseded: Mapping[str, Iterable[int]]) -> str:
    """Return SQL for a view of every row in `files` that counts, whatever version its file was written under.

    The table `live` has all columns, so that a column which no file has yet is there, and null.
    """
    touched = [info for name, info in files.items() if name in superseded]
    clean = [info for name, info in files.items() if name not in superseded]
    parts = ["SELECT * FROM live"]
    if clean:
        parts.append(f"SELECT * FROM {scan(clean)}")  # noqa: S608  # paths, quoted by scan
    if touched:
        parts.append(
            f"SELECT * EXCLUDE (filename, file_row_number) FROM {scan(touched, places=True)} AS f "  # noqa: S608
            "WHERE NOT EXISTS (SELECT 1 FROM superseded AS s "
            "WHERE s.file = parse_filename(f.filename) AND s.row = f.file_row_number)"
        )
    return f"CREATE OR REPLACE VIEW {view} AS " + " UNION ALL BY NAME ".join(parts)


def ids_in(connection: duckdb.DuckDBPyConnection, files: Sequence[FileInfo]) -> dict[str, set[str]]:
    """Return the ids of runs and traces in each of `files`, by its name."""
    found: dict[str, set[str]] = {info.name: set() for info in files}
    if files:
        text = f"SELECT DISTINCT parse_filename(filename), run_id, trace_id FROM {scan(files, places=True)}"  # noqa: S608
        for name, *ids in connection.execute(text).fetchall():
            found[name].update(filter(None, ids))
    return found


def ids_held(connection: duckdb.DuckDBPyConnection, files: Sequence[FileInfo], ids: set[str]) -> set[str]:
    """Return which of `ids` are those of runs or traces in `files`."""
    if not files or not ids:
        return set()
    ids_table(connection, "wanted_ids", sorted(ids))
    text = " UNION ".join(
        f"SELECT {column} FROM {scan(files)} WHERE {column} IN (SELECT id FROM wanted_ids)"  # noqa: S608
        for column in ("run_id", "trace_id")
    )
    return {found for (found,) in connection.execute(text).fetchall()}


def places_of(
    connection: duckdb.DuckDBPyConnection,
    files: Sequence[FileInfo],
    superseded: Mapping[str, frozenset[int]],
    rows: Sequence[Row],
) -> tuple[dict[Key, list[Place]], dict[Place, Row]]:
    """Return (where rows with the keys of `rows` stand in `files`, what KIN_COLUMNS say of all rows of their traces).

    Superseded ones aside.
    """
    wanted = {key_of(row) for row in rows}
    found: dict[Key, list[Place]] = {}
    kin: dict[Place, Row] = {}
    runs = sorted({row["run_id"] for row in rows if row.get("run_id")})
    traces = sorted({row["trace_id"] for row in rows})
    if not files:
        return found, kin
    ids_table(connection, "wanted_runs", runs)
    ids_table(connection, "wanted_traces", traces)
    columns = (*_KEY_COLUMNS, *KIN_COLUMNS)
    answer = connection.execute(
        f"SELECT parse_filename(filename), file_row_number, {', '.join(columns)} FROM {scan(files, places=True)} "  # noqa: S608
        "WHERE run_id IN (SELECT id FROM wanted_runs) OR trace_id IN (SELECT id FROM wanted_traces)"
    ).fetchall()
    for name, number, *values in answer:
        if number in superseded.get(name, ()):
            continue
        row = dict(zip(columns, values, strict=True))
        kin[name, number] = row
        key = key_of(row)
        if key in wanted:
            found.setdefault(key, []).append((name, number))
    return found, kin


def rows_at(connection: duckdb.DuckDBPyConnection, listing: Listing, places: Iterable[Place]) -> dict[Place, Row]:
    """Return the rows at `places`, with the store's columns."""
    by_file: dict[str, list[int]] = {}
    for name, number in places:
        by_file.setdefault(name, []).append(number)
    found: dict[Place, Row] = {}
    for name, numbers in by_file.items():
        info = listing.files.get(name)
        if info is None:
            continue
        listed = ", ".join(map(str, sorted(set(numbers))))
        table = connection.sql(
            f"SELECT * EXCLUDE (filename) FROM {scan([info], places=True)} WHERE file_row_number IN ({listed})"  # noqa: S608
        ).to_arrow_table()
        for row in table.to_pylist():
            number = row.pop("file_row_number")
            found[name, number] = {column: row.get(column) for column in schema.COLUMNS}
    return found


def rows_where(
    connection: duckdb.DuckDBPyConnection, condition: str, parameters: Sequence[Any], order: str
) -> list[Row]:
    """Return the rows of the view `stored` that stand and meet `condition`, in `order`.

    They have the columns that give spans and recordings back, not those that only queries want.
    """
    wanted = ", ".join(schema.READ_COLUMNS)
    text = f"SELECT {wanted} FROM stored WHERE difference IS NULL AND ({condition}) ORDER BY {order}"  # noqa: S608
    table = connection.sql(text, params=list(parameters)).to_arrow_table()
    columns = [column.to_pylist() for column in table.columns]
    return [dict(zip(schema.READ_COLUMNS, values, strict=True)) for values in zip(*columns, strict=True)]
