#!/usr/bin/env bash
# Generate the code of envelope.proto anew; fail where it differs from what is committed. `--write` puts it in place.
set -euo pipefail
cd "$(dirname "$0")/.."
target=otel_replay/_proto/otel_replay/v1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
.venv/bin/python -m grpc_tools.protoc -Iproto --python_out="$scratch" --pyi_out="$scratch" proto/otel_replay/v1/envelope.proto
# What it generates runs on older runtimes too, down to the one that pyproject.toml asks for; its check would refuse them
# (some frameworks pin protobuf 5).
minimum=$(sed -n 's/.*"protobuf>=\([0-9]*\)\.\([0-9]*\)".*/\1.\2.0/p' pyproject.toml)
MINIMUM=$minimum .venv/bin/python - "$scratch/otel_replay/v1/envelope_pb2.py" <<'PYTHON'
import os, pathlib, re, sys
made, minimum = pathlib.Path(sys.argv[1]), os.environ["MINIMUM"].split(".")
text = re.sub(r"(Domain\.PUBLIC,)\s+\d+,\s+\d+,\s+\d+,", "\n    ".join([r"\1", *(f"{n}," for n in minimum)]), made.read_text())
made.write_text(re.sub(r"(?m)^(# Protobuf Python Version: ).*$", r"\g<1>" + ".".join(minimum), text))
PYTHON
for file in envelope_pb2.py envelope_pb2.pyi; do
    if [ "${1:-}" = "--write" ]; then
        cp "$scratch/otel_replay/v1/$file" "$target/$file"
    fi
    diff -u "$target/$file" "$scratch/otel_replay/v1/$file"
done
echo "generated code is current"
