#!/usr/bin/env bash
# Runs the tests of each agent framework in an environment of its own, kept in a cache folder, so that the project's
# own environment stays lean. Names as arguments choose frameworks: tests/frameworks/run.sh langgraph
# `clients` runs the tests of the client libraries in the project's environment. Each leaves its results for compat.py.
set -euo pipefail
cd "$(dirname "$0")/../.."

python=${PYTHON:-.venv/bin/python}
cache=${OTEL_REPLAY_FRAMEWORKS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/otel-replay/frameworks}
common=(pytest openai httpx opentelemetry-instrumentation-httpx)

# name -> what pip installs beside the package itself; name@version: the same tests with an older one
declare -A packages=(
    [langgraph]="langgraph langchain-openai"
    [openai_agents]="openai-agents"
    [clients@2025]="openai==2.8.1 anthropic==0.75.0 httpx2 aiohttp==3.13.2 requests==2.32.5 urllib3==2.5.0"
    [langchain]="langchain-openai"
    [langchain@1.1]="langchain-openai==1.1.0 langchain-core==1.1.0"
    [litellm]="litellm"
    [litellm@1.80]="litellm==1.80.7"
    [google_genai]="google-genai aiohttp"
    [google_genai@1.53]="google-genai==1.53.0 aiohttp"
    [pydantic_ai]="pydantic-ai-slim[openai,mcp]"
    [pydantic_ai@1.22]="pydantic-ai-slim[openai]==1.22.0 opentelemetry-sdk<1.39 opentelemetry-instrumentation-httpx==0.59b0"
    [mcp]="mcp"
    [autogen]="autogen-agentchat autogen-ext[openai]"
    [crewai]="crewai"
    [util_genai]="opentelemetry-util-genai"
    [mcp@1.22]="mcp==1.22.0 websockets"
)

uv=("$python" -m uv)  # twenty environments in the time that pip takes for two
results=$cache/results
mkdir -p "$results"

clients=(tests/instruments/test_{openai,openai_streams,anthropic,transports,wrap}.py)

# leave_results NAME PYTHON PYTEST_ARGUMENTS...
leave_results() {
    "${uv[@]}" pip freeze --python "$2" >"$results/$1.txt"
    "$2" -m pytest --junitxml "$results/$1.xml" "${@:3}"
}

# Without names: the newest of each; with --all the older ones too, for the table of what was tried.
if [[ ${1:-} == --all ]]; then
    set -- "${!packages[@]}"
elif [[ $# -eq 0 ]]; then
    for name in "${!packages[@]}"; do [[ $name == *@* ]] || set -- "$@" "$name"; done
fi
for name in "$@"; do
    if [[ $name == clients ]]; then
        leave_results clients "$python" -n 0 "${clients[@]}"
        continue
    fi
    [[ -n ${packages[$name]:-} ]] || { echo "unknown framework: $name" >&2; exit 2; }
    home=$cache/$name
    # The project is installed from where this clone stands: another clone makes the environment anew.
    wanted=$(cat pyproject.toml requirements.lock <(echo "$PWD ${common[*]} ${packages[$name]}") | sha256sum)
    if [[ $(cat "$home/.ready" 2>/dev/null) != "$wanted" ]]; then
        "${uv[@]}" venv --quiet --clear --python "$python" "$home"
        # shellcheck disable=SC2086  # several packages
        "${uv[@]}" pip install --quiet --python "$home/bin/python" "${common[@]}" ${packages[$name]} -e .
        echo "$wanted" >"$home/.ready"
    fi
    echo "== $name: $("${uv[@]}" pip freeze --python "$home/bin/python" | grep -iE '^(langgraph|langchain-core|openai-agents|litellm|google-genai|openai|pydantic-ai-slim|mcp|autogen-agentchat|crewai|opentelemetry-util-genai)==' | tr '\n' ' ')"
    if [[ $name == clients@* ]]; then
        leave_results "$name" "$home/bin/python" "${clients[@]}"
    else
        leave_results "$name" "$home/bin/python" -m frameworks tests/frameworks/test_"${name%@*}"*.py
    fi
done
