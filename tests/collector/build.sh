#!/usr/bin/env bash
# Build the real OpenTelemetry Collector, Jaeger and an S3 server from their own Go modules, and fetch the real Kafka
# from Maven, once, into a cache folder.
#
#   tests/collector/build.sh [otelcol] [otelcol-kafka] [jaeger] [versitygw] [kafka]     (default: all)
#
# They lie in ${OTEL_REPLAY_CACHE:-${XDG_CACHE_HOME:-~/.cache}/otel-replay} (bin/, kafka/) and are made again when
# their go.mod, go.sum, main.go or pom.xml change.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${OTEL_REPLAY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/otel-replay}
bin=$cache/bin
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

fetch_kafka() {
    local stamp
    stamp=$(sha256sum < "$here/kafka/pom.xml" | cut -d' ' -f1)
    if [ "$(cat "$cache/kafka/stamp" 2>/dev/null)" = "$stamp" ]; then
        echo "kafka: fetched before"
        return
    fi
    echo "kafka: fetching"
    rm -rf "$cache/kafka"
    mvn --quiet --batch-mode --no-transfer-progress -f "$here/kafka/pom.xml" \
        org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies -DoutputDirectory="$cache/kafka"
    echo "$stamp" > "$cache/kafka/stamp"
}

for name in "${@:-otelcol otelcol-kafka jaeger versitygw kafka}"; do
    for one in $name; do
        case $one in
            otelcol | otelcol-kafka) build "$one" . ;;
            jaeger) build jaeger github.com/jaegertracing/jaeger/cmd/jaeger ;;
            versitygw) build versitygw github.com/versity/versitygw/cmd/versitygw ;;
            kafka) fetch_kafka ;;
            *) echo "unknown: $one (otelcol, otelcol-kafka, jaeger, versitygw, kafka)" >&2; exit 2 ;;
        esac
    done
done
