"""The attribute names that we write and read. README has the table; `proto/` defines what the envelope holds."""

from __future__ import annotations

from typing import Final

SCHEMA_VERSION: Final = 1
SCOPE_NAME: Final = "otel_replay"

SCHEMA: Final = "otel_replay.schema"
RUN_ID: Final = "otel_replay.run.id"
RUN_NAME: Final = "otel_replay.run.name"
RUN_LANE: Final = "otel_replay.run.lane"
RUN_CROSSINGS: Final = "otel_replay.run.crossings"
RUN_DIGEST: Final = "otel_replay.run.digest"
RUN_REPLAY_OF: Final = "otel_replay.run.replay_of"
ADDRESS: Final = "otel_replay.address"
STRAND: Final = "otel_replay.strand"
SEQ: Final = "otel_replay.seq"
END_SEQ: Final = "otel_replay.end_seq"
BOUNDARY: Final = "otel_replay.boundary"
KIND: Final = "otel_replay.kind"
MODE: Final = "otel_replay.mode"
OUTCOME: Final = "otel_replay.outcome"
KEY: Final = "otel_replay.key"
ENVELOPE: Final = "otel_replay.envelope"
ENVELOPE_ENCODING: Final = "otel_replay.envelope.encoding"
ENVELOPE_BYTES: Final = "otel_replay.envelope.bytes"
ENVELOPE_SHA256: Final = "otel_replay.envelope.sha256"
ENVELOPE_PARTS: Final = "otel_replay.envelope.parts"
ENVELOPE_BLOBS: Final = "otel_replay.envelope.blobs"
ENVELOPE_PART: Final = "otel_replay.envelope.part"

KIND_RUN: Final = "run"
KIND_PART: Final = "part"
KIND_DOUBLE: Final = "double"
"""A span that tells once more of a call whose crossing another span carries: kept as it came, never counted."""
KINDS: Final = ("model", "tool", "router", "http", "mcp", "clock", "random", "custom")
MODES: Final = ("record", "stub", "live", "override", "new")
OUTCOMES: Final = ("returned", "raised", "streamed", "cancelled", "lost")

# GenAI semantic conventions (open-telemetry/semantic-conventions-genai).
GEN_AI_OPERATION: Final = "gen_ai.operation.name"
GEN_AI_PROVIDER: Final = "gen_ai.provider.name"
GEN_AI_REQUEST_MODEL: Final = "gen_ai.request.model"
GEN_AI_RESPONSE_MODEL: Final = "gen_ai.response.model"
GEN_AI_RESPONSE_ID: Final = "gen_ai.response.id"
GEN_AI_FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
GEN_AI_INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
GEN_AI_OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
GEN_AI_INPUT_MESSAGES: Final = "gen_ai.input.messages"
GEN_AI_OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
GEN_AI_TOOL_NAME: Final = "gen_ai.tool.name"
GEN_AI_TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
GEN_AI_TOOL_RESULT: Final = "gen_ai.tool.call.result"
MCP_METHOD: Final = "mcp.method.name"
JSONRPC_ID: Final = "jsonrpc.request.id"
ERROR_TYPE: Final = "error.type"
