"""OTLP on the wire: protobuf and JSON <-> Span, and log records; HTTP answers as values. Nothing here does I/O."""
