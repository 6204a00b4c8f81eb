"""Every bound of the package. Reaching one is data or an error, never silence."""

from __future__ import annotations

# Spans ---------------------------------------------------------------------------------------------------
ENVELOPE_PART_BYTES_MAX = 1_900
"""Longest string in the list that carries an envelope: Tempo cuts strings at 2,048 bytes."""
ENVELOPE_ATTRIBUTE_BYTES_MAX = 60_000
"""Most bytes of an envelope in one attribute: Jaeger on Badger refuses an attribute of over 65,000 bytes, and the
whole batch is lost with it."""
ENVELOPE_ATTRIBUTES_MAX = 16
"""Most attributes that carry an envelope on one span: an SDK keeps 128, and evicts the oldest. What is more travels in
spans of its own beneath the crossing's, each of at most 16 x 60,000 bytes."""
ENVELOPE_INLINE_BYTES_MAX = 4_096
"""Largest envelope put on a span where our batch-splitting exporter cannot stand before a foreign exporter."""
BLOB_THRESHOLD_BYTES = 256 * 1024
"""A string longer than this is kept once, under its digest (blobs.py)."""
BLOB_TEXT_CHARS_MAX = 256 * 1024 * 1024
"""A longer text is kept as it is; and no text grows beyond this by the blobs that are put into it."""
BLOB_SPAN_BYTES_MAX = 1024 * 1024
GRPC_BATCH_BYTES_MAX = 3_500 * 1024
HTTP_BATCH_BYTES_MAX = 15 * 1024 * 1024

# Values --------------------------------------------------------------------------------------------------
PAYLOAD_BYTES_MAX = 64 * 1024 * 1024
"""A payload beyond this is lost, with its size as the reason."""
PAYLOAD_DEPTH_MAX = 200
CHUNKS_MAX = 100_000
ATTRIBUTES_AWAITING_MAX = 10_000
"""Most GenAI spans whose content waits for their end."""
EXCEPTION_CHAIN_MAX = 20

# Files ---------------------------------------------------------------------------------------------------
JOURNAL_ENTRY_BYTES_MAX = 128 * 1024 * 1024
IMPORT_SPAN_BYTES_MAX = 64 * 1024 * 1024
IMPORT_DEPTH_MAX = 200
DECOMPRESSED_RATIO_MAX = 200
DECOMPRESSED_BYTES_MAX = 4 * 1024 * 1024 * 1024
ROW_GROUP_BYTES = 16 * 1024 * 1024

# Replay --------------------------------------------------------------------------------------------------
TURN_WAIT_MS_MAX = 2_000
"""How long a served crossing waits for one that ended before it in the record, while anything else may still run."""
CANCELLED_WAIT_MS_MAX = 10_000
"""How long a crossing that was cancelled in the record stays suspended before it is refused."""
REPORT_TEXT_CHARS_MAX = 400
REPORT_PAGE_TEXT_CHARS_MAX = 4_000
"""How much of one changed value the HTML form of a report shows."""
COVERAGE_NOTES_MAX = 100
TAPE_VALUES_MAX = 100_000
TAPE_BYTES_MAX = 2 * 1024 * 1024
"""Most that the tapes of clock and chance hold of one lane of a run. What is more is counted, and live in a replay."""
TAPE_NOTES_MAX = 100

# Receivers -----------------------------------------------------------------------------------------------
MESSAGE_BYTES_MAX = 64 * 1024 * 1024
