#!/usr/bin/env bash
# Check each file in deploy/ with its own tool, and do what the Dockerfile does in a folder of this machine.
#
# The tools lie in ${OTEL_REPLAY_CACHE:-${XDG_CACHE_HOME:-~/.cache}/otel-replay}/deploy. A tool that cannot be had
# here is named; what it would check is then left out.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
cache=${OTEL_REPLAY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/otel-replay}/deploy
python=${PYTHON:-.venv/bin/python}
mkdir -p "$cache"

stamp=$(cat "$here/requirements.txt" "$here"/*/go.mod "$here"/*/go.sum | sha256sum | cut -d' ' -f1)
if [ "$(cat "$cache/stamp" 2>/dev/null)" != "$stamp" ]; then
    "$python" -m venv --clear "$cache/venv"
    "$cache/venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt"
    if command -v go >/dev/null; then
        go -C "$here/actionlint" build -buildvcs=false -o "$cache/actionlint" github.com/rhysd/actionlint/cmd/actionlint
        go -C "$here/compose" build -buildvcs=false -o "$cache/compose-spec" github.com/compose-spec/compose-go/v2/cmd
        echo "$stamp" > "$cache/stamp"
    fi
fi

echo "-- Dockerfile: hadolint"
"$cache/venv/bin/hadolint" deploy/Dockerfile
echo "-- Kubernetes: the API's own schema, nothing beside it"
"$cache/venv/bin/kubernetes-validate" --strict --quiet deploy/kubernetes/*.yaml
if [ -x "$cache/actionlint" ]; then
    echo "-- GitHub Action: actionlint"
    "$cache/actionlint" deploy/github-action.yaml
    echo "-- compose: the Compose specification"
    for files in deploy/compose.yaml "deploy/compose.yaml deploy/compose.objects.yaml"; do
        # shellcheck disable=SC2086  # one argument a file
        "$cache/compose-spec" $files >/dev/null
    done
else
    echo "LEFT OUT: actionlint and the Compose specification need Go, which is not on this machine"
fi
if command -v systemd-analyze >/dev/null; then
    echo "-- systemd unit: systemd-analyze verify"
    # The program is not installed here: the unit is checked with one that is there.
    unit=$(mktemp -d)
    trap 'rm -rf "$unit"' EXIT
    sed 's|^ExecStart=[^ ]*|ExecStart=/bin/true|' deploy/otel-replay-sink.service > "$unit/otel-replay-sink.service"
    # It ends well over settings that it does not know, and only says so.
    said=$(systemd-analyze verify "$unit/otel-replay-sink.service" 2>&1 | grep "^$unit\|otel-replay-sink" || true)
    [ -z "$said" ] || { echo "$said" >&2; exit 1; }
else
    echo "LEFT OUT: systemd-analyze is not on this machine"
fi
echo "-- Dockerfile: its steps, and a sink as its command starts it"
"$python" "$here/image.py" deploy/Dockerfile
