"""Recording: the driver behind `record()`, its journal, and its spans in the program's own OpenTelemetry set-up."""
