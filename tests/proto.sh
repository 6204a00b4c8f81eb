#!/usr/bin/env bash
# Generate the code of envelope.proto anew; fail where it differs from what is committed. `--write` puts it in place.
set -euo pipefail
cd "$(dirname "$0")/.."
target=otel_replay/_proto/otel_replay/v1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
.venv/bin/python -m grpc_tools.protoc -Iproto --python_out="$scratch" --pyi_out="$scratch" proto/otel_replay/v1/envelope.proto
for file in envelope_pb2.py envelope_pb2.pyi; do
    if [ "${1:-}" = "--write" ]; then
        cp "$scratch/otel_replay/v1/$file" "$target/$file"
    fi
    diff -u "$target/$file" "$scratch/otel_replay/v1/$file"
done
echo "generated code is current"
