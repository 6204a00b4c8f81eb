"""Print recall and false alarms of the built-in rules: the labelled set, the recorded cases, every sample trace.

Run from the root of the checkout: `python -m bench.redaction`. Exits with 1 where a secret is left or a value that
holds none was touched.
"""

from __future__ import annotations

import json
import sys
import timeit
from collections.abc import Iterator
from pathlib import Path

import orjson

from bench.redaction.labelled import NEGATIVES, POSITIVES
from otel_replay.envelope import Payload
from otel_replay.redaction import Redactor

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT.parent / "shared" / "samples"
REDACTOR = Redactor.default()


def redacted(value: object) -> str:
    """Return the JSON text of a value after redaction."""
    payload = Payload("json", orjson.dumps(value).decode())
    return REDACTOR.redact(payload)[0].value.text


def missed() -> list[str]:
    """Return the secrets of the labelled set that are left, and what went with them though it had to stay."""
    out = []
    for label in POSITIVES:
        text = redacted(label.value)
        flat = json.dumps(label.value)
        out += [f"left: {secret[:12]}... in {flat[:100]}" for secret in label.gone if secret in text]
        out += [f"taken too: {part!r} in {flat[:100]}" for part in label.stay if part not in text.replace('\\"', '"')]
    return out


def documents(folder: Path) -> Iterator[tuple[Path, object]]:
    """Yield every JSON document, JSON line or text of a folder of samples."""
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        text = path.read_bytes().decode("utf-8", "replace")
        try:
            yield path, json.loads(text)
        except ValueError:
            for line in text.splitlines():
                try:
                    yield path, json.loads(line)
                except ValueError:
                    yield path, line


def alarms(values: Iterator[tuple[object, object]]) -> tuple[int, list[str]]:
    """Return how many values were looked at, and the hits in them; none of them holds a secret."""
    count, out = 0, []
    for where, value in values:
        count += 1
        text = value if isinstance(value, str) else json.dumps(value)
        hits = (
            REDACTOR.redact(Payload("json", text))[1] if not isinstance(value, str) else REDACTOR.redact_text(text)[1]
        )
        out += [f"{where}: {hit.rule} at {hit.path}" for hit in hits]
    return count, out


def cost() -> str:
    """Return the time of the scan over a clean payload of 1 KB, the least of three."""
    words = "Lorem ipsum dolor: sit amet, the quick brown fox "
    payload = Payload("json", orjson.dumps({"messages": [{"role": "user", "content": words * 20}]}).decode())
    least = min(timeit.repeat(lambda: REDACTOR.redact(payload), number=5_000, repeat=3)) / 5_000
    return f"clean payload of {len(payload.text)} bytes: {least * 1e6:.1f} us"


def main() -> int:
    secrets = sum(len(label.gone) for label in POSITIVES)
    left = missed()
    found = secrets - sum(line.startswith("left") for line in left)
    print(f"labelled set: {found} of {secrets} secrets found, recall {found / secrets:.1%}")
    clean, false = alarms((f"labelled {i}", value) for i, value in enumerate(NEGATIVES))
    print(f"look-alikes: {len(false)} false alarms in {clean} values")
    if SAMPLES.is_dir():
        count, more = alarms((path.relative_to(SAMPLES), value) for path, value in documents(SAMPLES))
        print(f"samples: {len(more)} false alarms in {count} documents")
        false += more
    else:
        print("samples: not here, so not looked at")
    print(cost())
    for line in (*left, *false):
        print(" ", line)
    return 1 if left or false else 0


if __name__ == "__main__":
    sys.exit(main())
