from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Payload(_message.Message):
    __slots__ = ("encoding", "text", "reason", "cuts")
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CUTS_FIELD_NUMBER: _ClassVar[int]
    encoding: str
    text: bytes
    reason: str
    cuts: _containers.RepeatedCompositeFieldContainer[Cut]
    def __init__(self, encoding: _Optional[str] = ..., text: _Optional[bytes] = ..., reason: _Optional[str] = ..., cuts: _Optional[_Iterable[_Union[Cut, _Mapping]]] = ...) -> None: ...

class Cut(_message.Message):
    __slots__ = ("at", "length", "sha256")
    AT_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    at: int
    length: int
    sha256: str
    def __init__(self, at: _Optional[int] = ..., length: _Optional[int] = ..., sha256: _Optional[str] = ...) -> None: ...

class Chunk(_message.Message):
    __slots__ = ("value", "sent", "thrown")
    VALUE_FIELD_NUMBER: _ClassVar[int]
    SENT_FIELD_NUMBER: _ClassVar[int]
    THROWN_FIELD_NUMBER: _ClassVar[int]
    value: Payload
    sent: Payload
    thrown: bool
    def __init__(self, value: _Optional[_Union[Payload, _Mapping]] = ..., sent: _Optional[_Union[Payload, _Mapping]] = ..., thrown: _Optional[bool] = ...) -> None: ...

class Outcome(_message.Message):
    __slots__ = ("kind", "value", "chunks", "end", "ended_by")
    KIND_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    ENDED_BY_FIELD_NUMBER: _ClassVar[int]
    kind: str
    value: Payload
    chunks: _containers.RepeatedCompositeFieldContainer[Chunk]
    end: str
    ended_by: Chunk
    def __init__(self, kind: _Optional[str] = ..., value: _Optional[_Union[Payload, _Mapping]] = ..., chunks: _Optional[_Iterable[_Union[Chunk, _Mapping]]] = ..., end: _Optional[str] = ..., ended_by: _Optional[_Union[Chunk, _Mapping]] = ...) -> None: ...

class Redaction(_message.Message):
    __slots__ = ("rule", "path", "length")
    RULE_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    rule: str
    path: str
    length: int
    def __init__(self, rule: _Optional[str] = ..., path: _Optional[str] = ..., length: _Optional[int] = ...) -> None: ...

class Attempt(_message.Message):
    __slots__ = ("status", "start_ns", "end_ns", "wait_ns")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    START_NS_FIELD_NUMBER: _ClassVar[int]
    END_NS_FIELD_NUMBER: _ClassVar[int]
    WAIT_NS_FIELD_NUMBER: _ClassVar[int]
    status: str
    start_ns: int
    end_ns: int
    wait_ns: int
    def __init__(self, status: _Optional[str] = ..., start_ns: _Optional[int] = ..., end_ns: _Optional[int] = ..., wait_ns: _Optional[int] = ...) -> None: ...

class Pins(_message.Message):
    __slots__ = ("json", "initial_state_hash", "snapshot_ids", "live_data_waivers")
    JSON_FIELD_NUMBER: _ClassVar[int]
    INITIAL_STATE_HASH_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_IDS_FIELD_NUMBER: _ClassVar[int]
    LIVE_DATA_WAIVERS_FIELD_NUMBER: _ClassVar[int]
    json: bytes
    initial_state_hash: str
    snapshot_ids: _containers.RepeatedScalarFieldContainer[str]
    live_data_waivers: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, json: _Optional[bytes] = ..., initial_state_hash: _Optional[str] = ..., snapshot_ids: _Optional[_Iterable[str]] = ..., live_data_waivers: _Optional[_Iterable[str]] = ...) -> None: ...

class Envelope(_message.Message):
    __slots__ = ("schema", "run_id", "run_name", "lane", "address", "parent", "boundary", "kind", "mode", "strand", "seq", "end_seq", "start_ns", "end_ns", "request", "changed", "outcome", "key", "pins", "side_effects", "notes", "redactions", "attempts", "trace_id", "span_id", "parent_span_id", "grade", "place")
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_NAME_FIELD_NUMBER: _ClassVar[int]
    LANE_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    BOUNDARY_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    STRAND_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    END_SEQ_FIELD_NUMBER: _ClassVar[int]
    START_NS_FIELD_NUMBER: _ClassVar[int]
    END_NS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    PINS_FIELD_NUMBER: _ClassVar[int]
    SIDE_EFFECTS_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    REDACTIONS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    SPAN_ID_FIELD_NUMBER: _ClassVar[int]
    PARENT_SPAN_ID_FIELD_NUMBER: _ClassVar[int]
    GRADE_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    schema: int
    run_id: str
    run_name: str
    lane: str
    address: str
    parent: str
    boundary: str
    kind: str
    mode: str
    strand: int
    seq: int
    end_seq: int
    start_ns: int
    end_ns: int
    request: Payload
    changed: Payload
    outcome: Outcome
    key: str
    pins: Pins
    side_effects: bool
    notes: _containers.RepeatedScalarFieldContainer[str]
    redactions: _containers.RepeatedCompositeFieldContainer[Redaction]
    attempts: _containers.RepeatedCompositeFieldContainer[Attempt]
    trace_id: str
    span_id: str
    parent_span_id: str
    grade: str
    place: str
    def __init__(self, schema: _Optional[int] = ..., run_id: _Optional[str] = ..., run_name: _Optional[str] = ..., lane: _Optional[str] = ..., address: _Optional[str] = ..., parent: _Optional[str] = ..., boundary: _Optional[str] = ..., kind: _Optional[str] = ..., mode: _Optional[str] = ..., strand: _Optional[int] = ..., seq: _Optional[int] = ..., end_seq: _Optional[int] = ..., start_ns: _Optional[int] = ..., end_ns: _Optional[int] = ..., request: _Optional[_Union[Payload, _Mapping]] = ..., changed: _Optional[_Union[Payload, _Mapping]] = ..., outcome: _Optional[_Union[Outcome, _Mapping]] = ..., key: _Optional[str] = ..., pins: _Optional[_Union[Pins, _Mapping]] = ..., side_effects: _Optional[bool] = ..., notes: _Optional[_Iterable[str]] = ..., redactions: _Optional[_Iterable[_Union[Redaction, _Mapping]]] = ..., attempts: _Optional[_Iterable[_Union[Attempt, _Mapping]]] = ..., trace_id: _Optional[str] = ..., span_id: _Optional[str] = ..., parent_span_id: _Optional[str] = ..., grade: _Optional[str] = ..., place: _Optional[str] = ...) -> None: ...

class Run(_message.Message):
    __slots__ = ("schema", "run_id", "run_name", "lane", "start_ns", "end_ns", "crossings", "digest", "lanes", "answer", "verdict", "error", "faults_json", "pins", "trace_id", "span_id", "parent_span_id", "mode", "notes", "replay_of")
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_NAME_FIELD_NUMBER: _ClassVar[int]
    LANE_FIELD_NUMBER: _ClassVar[int]
    START_NS_FIELD_NUMBER: _ClassVar[int]
    END_NS_FIELD_NUMBER: _ClassVar[int]
    CROSSINGS_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    LANES_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    FAULTS_JSON_FIELD_NUMBER: _ClassVar[int]
    PINS_FIELD_NUMBER: _ClassVar[int]
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    SPAN_ID_FIELD_NUMBER: _ClassVar[int]
    PARENT_SPAN_ID_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    REPLAY_OF_FIELD_NUMBER: _ClassVar[int]
    schema: int
    run_id: str
    run_name: str
    lane: str
    start_ns: int
    end_ns: int
    crossings: int
    digest: str
    lanes: _containers.RepeatedScalarFieldContainer[str]
    answer: Payload
    verdict: str
    error: str
    faults_json: bytes
    pins: Pins
    trace_id: str
    span_id: str
    parent_span_id: str
    mode: str
    notes: _containers.RepeatedScalarFieldContainer[str]
    replay_of: str
    def __init__(self, schema: _Optional[int] = ..., run_id: _Optional[str] = ..., run_name: _Optional[str] = ..., lane: _Optional[str] = ..., start_ns: _Optional[int] = ..., end_ns: _Optional[int] = ..., crossings: _Optional[int] = ..., digest: _Optional[str] = ..., lanes: _Optional[_Iterable[str]] = ..., answer: _Optional[_Union[Payload, _Mapping]] = ..., verdict: _Optional[str] = ..., error: _Optional[str] = ..., faults_json: _Optional[bytes] = ..., pins: _Optional[_Union[Pins, _Mapping]] = ..., trace_id: _Optional[str] = ..., span_id: _Optional[str] = ..., parent_span_id: _Optional[str] = ..., mode: _Optional[str] = ..., notes: _Optional[_Iterable[str]] = ..., replay_of: _Optional[str] = ...) -> None: ...

class JournalEntry(_message.Message):
    __slots__ = ("run_start", "mark", "crossing", "run_end", "drawn", "written", "blob")
    RUN_START_FIELD_NUMBER: _ClassVar[int]
    MARK_FIELD_NUMBER: _ClassVar[int]
    CROSSING_FIELD_NUMBER: _ClassVar[int]
    RUN_END_FIELD_NUMBER: _ClassVar[int]
    DRAWN_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_FIELD_NUMBER: _ClassVar[int]
    BLOB_FIELD_NUMBER: _ClassVar[int]
    run_start: Run
    mark: Mark
    crossing: Envelope
    run_end: Run
    drawn: Drawn
    written: Written
    blob: Blob
    def __init__(self, run_start: _Optional[_Union[Run, _Mapping]] = ..., mark: _Optional[_Union[Mark, _Mapping]] = ..., crossing: _Optional[_Union[Envelope, _Mapping]] = ..., run_end: _Optional[_Union[Run, _Mapping]] = ..., drawn: _Optional[_Union[Drawn, _Mapping]] = ..., written: _Optional[_Union[Written, _Mapping]] = ..., blob: _Optional[_Union[Blob, _Mapping]] = ...) -> None: ...

class Blob(_message.Message):
    __slots__ = ("text",)
    TEXT_FIELD_NUMBER: _ClassVar[int]
    text: bytes
    def __init__(self, text: _Optional[bytes] = ...) -> None: ...

class Written(_message.Message):
    __slots__ = ("json", "trace_id", "span_id", "parent_span_id")
    JSON_FIELD_NUMBER: _ClassVar[int]
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    SPAN_ID_FIELD_NUMBER: _ClassVar[int]
    PARENT_SPAN_ID_FIELD_NUMBER: _ClassVar[int]
    json: bytes
    trace_id: str
    span_id: str
    parent_span_id: str
    def __init__(self, json: _Optional[bytes] = ..., trace_id: _Optional[str] = ..., span_id: _Optional[str] = ..., parent_span_id: _Optional[str] = ...) -> None: ...

class Drawn(_message.Message):
    __slots__ = ("address", "json")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    JSON_FIELD_NUMBER: _ClassVar[int]
    address: str
    json: bytes
    def __init__(self, address: _Optional[str] = ..., json: _Optional[bytes] = ...) -> None: ...

class Mark(_message.Message):
    __slots__ = ("address", "boundary", "kind", "seq", "strand", "start_ns", "parent", "span_id")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    BOUNDARY_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    STRAND_FIELD_NUMBER: _ClassVar[int]
    START_NS_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    SPAN_ID_FIELD_NUMBER: _ClassVar[int]
    address: str
    boundary: str
    kind: str
    seq: int
    strand: int
    start_ns: int
    parent: str
    span_id: str
    def __init__(self, address: _Optional[str] = ..., boundary: _Optional[str] = ..., kind: _Optional[str] = ..., seq: _Optional[int] = ..., strand: _Optional[int] = ..., start_ns: _Optional[int] = ..., parent: _Optional[str] = ..., span_id: _Optional[str] = ...) -> None: ...
