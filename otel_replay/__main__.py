"""`python -m otel_replay` is `otel-replay`."""

from otel_replay.cli import main

main()
