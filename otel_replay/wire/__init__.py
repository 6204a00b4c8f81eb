"""OTLP on the wire: protobuf and JSON <-> Span, and log records. Nothing here does I/O."""
