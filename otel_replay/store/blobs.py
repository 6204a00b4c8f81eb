"""Large strings of rows, kept once by content: `<store>/blobs/<sha256>.parquet`, one row each.

`bytes` and `text` are what stood between the quotes of a JSON string, escapes and all. Any Parquet reader sees it; in
SQL it is `FROM blob('<sha256>')`.

A blob is durable before the file that refers to it has its name, and both happen under the store's lock; the sweep
of those that no file refers to holds it too. Where a lock is lost, the grace holds: who refers to a blob that is not
fresh writes it again, so that a sweep leaves it alone for as long as anyone could take to publish.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from otel_replay import limits
from otel_replay.blobs import BlobMissing, is_name, media_type, name_of
from otel_replay.errors import StoreError
from otel_replay.originals import now_ns, random_hex
from otel_replay.store.large import cut_row, join_row
from otel_replay.store.promoted import Row
from otel_replay.store.storage import Entry, Storage, fault_point

BLOBS: Final = "blobs"
SUFFIX: Final = ".parquet"
FRESH_S: Final = 450.0
"""A blob that is older than this is written again by who refers to it: half of what a sweep spares."""
_SCHEMA: Final = pa.schema(
    [("sha256", pa.string()), ("media_type", pa.string()), ("bytes", pa.int64()), ("text", pa.string())]
)


class Blobs:
    """The blobs of one store."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.folder = storage.root / BLOBS

    def cut(self, rows: Iterable[Row]) -> list[Row]:
        """Return `rows` as a file holds them, their large strings kept and durable. Raises StoreError."""
        found: dict[str, str] = {}
        cut: list[Row] = []
        for row in rows:
            row, blobs = cut_row(row)
            cut.append(row)
            found |= blobs
        self._keep(found)
        return cut

    def _keep(self, blobs: Mapping[str, str]) -> None:
        if not blobs:
            return
        fresh = now_ns() - int(FRESH_S * 1e9)
        try:
            for name, text in blobs.items():
                if self._changed_ns(name) < fresh:
                    self._write(name, text)
        except OSError as fault:
            raise StoreError(f"{self._storage.shown(self.folder)} could not be written: {fault}") from fault
        fault_point("blobs are kept")

    def _changed_ns(self, name: str) -> int:
        try:
            return self._storage.entry(self.folder / f"{name}{SUFFIX}").changed_ns
        except FileNotFoundError:
            return 0

    def _write(self, name: str, text: str) -> None:
        data = text.encode()
        table = pa.table([[name], [media_type(text)], [len(data)], [text]], schema=_SCHEMA)
        # Two writers of one blob must not share a temporary name, or one publishes what the other has half written.
        staged = self._storage.staging(self.folder / f"{name}-{random_hex(4)}{SUFFIX}")
        try:
            pq.write_table(table, staged, compression="zstd", use_dictionary=False, write_statistics=False)
            self._storage.publish(staged, self.folder / f"{name}{SUFFIX}")
        except BaseException:
            with suppress(OSError):
                staged.unlink()
            raise

    def whole(self, rows: Sequence[Row]) -> list[Row]:
        """Return rows of files as they were before `cut`. One whose blob is not there says so. Raises StoreError."""
        if not any(row.get("blobs") for row in rows):
            return list(rows)
        lookup = cache(self.read)  # the turns of one conversation hold the same pictures
        return [join_row(row, lookup) for row in rows]

    def read(self, name: str) -> str:
        """Return a blob, its digest checked. Raises BlobMissing, or StoreError where the storage can't be reached."""
        path = self.folder / f"{name}{SUFFIX}"
        if not is_name(name):
            raise BlobMissing(f"{name[:80]!r} is no blob's name")
        try:
            with self._storage.opened(path) as source, pq.ParquetFile(source) as file:
                size = sum(file.metadata.row_group(at).total_byte_size for at in range(file.metadata.num_row_groups))
                if file.metadata.num_rows != 1 or size > 4 * limits.BLOB_TEXT_CHARS_MAX:
                    raise BlobMissing(f"the blob {name} is damaged: it holds something else")
                text = file.read(["text"]).column(0)[0].as_py()
        except FileNotFoundError:
            raise BlobMissing(f"the blob {name} is not in the store") from None
        except (OSError, pa.ArrowException, IndexError) as fault:
            if not self._storage.is_the_files(fault):
                raise StoreError(f"{self._storage.shown(path)} can't be read now: {fault}") from fault
            raise BlobMissing(f"the blob {name} is damaged: {fault}") from fault
        if not isinstance(text, str) or name_of(text) != name:
            raise BlobMissing(f"the blob {name} is damaged: its digest does not match")
        return text

    def entries(self) -> dict[str, Entry]:
        """Return the blobs that are there, by name. Raises OSError."""
        listed = self._storage.files(self.folder)
        return {entry.path.stem: entry for entry in listed if entry.path.suffix == SUFFIX and is_name(entry.path.stem)}

    def there(self, names: Iterable[str]) -> bool:
        """True where all of `names` are there."""
        return all(self._changed_ns(name) for name in names)
