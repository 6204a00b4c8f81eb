"""Turn any agent run that OpenTelemetry saw into a test."""
