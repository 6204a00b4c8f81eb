"""Replay: envelopes served to re-run code, or a loud reason why not. Sees neither store nor OpenTelemetry."""
