#!/usr/bin/env bash
# Build the real OpenTelemetry Collector and the real Jaeger from their own Go modules, once, into a cache folder.
#
#   tests/collector/build.sh [otelcol] [otelcol-kafka] [jaeger]     (default: all three)
#
# The binaries lie in ${OTEL_REPLAY_CACHE:-${XDG_CACHE_HOME:-~/.cache}/otel-replay}/bin and are built again when
# their go.mod, go.sum or main.go change.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=${OTEL_REPLAY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/otel-replay}/bin
mkdir -p "$bin"
export GOFLAGS="-p=${OTEL_REPLAY_BUILD_JOBS:-1} -buildvcs=false"

build() {
    local name=$1 package=$2 stamp
    stamp=$(find "$here/$name" -maxdepth 1 -type f | sort | xargs cat | sha256sum | cut -d' ' -f1)
    if [ -x "$bin/$name" ] && [ "$(cat "$bin/$name.stamp" 2>/dev/null)" = "$stamp" ]; then
        echo "$name: built before"
        return
    fi
    echo "$name: building"
    (cd "$here/$name" && nice -n 10 go build -ldflags='-s -w' -o "$bin/$name.new" "$package")
    mv "$bin/$name.new" "$bin/$name"
    echo "$stamp" > "$bin/$name.stamp"
}

for name in "${@:-otelcol otelcol-kafka jaeger}"; do
    for one in $name; do
        case $one in
            otelcol | otelcol-kafka) build "$one" . ;;
            jaeger) build jaeger github.com/jaegertracing/jaeger/cmd/jaeger ;;
            *) echo "unknown: $one (otelcol, otelcol-kafka, jaeger)" >&2; exit 2 ;;
        esac
    done
done
