"""IM-11: what a backend returned in part is stored as such, and no replay takes it for the whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from otel_replay import boundary, open_store, replay
from otel_replay.errors import IncompleteRecording
from otel_replay.importing import import_source
from otel_replay.sources import load

CUT, WHOLE = "0af7651916cd43dd8448eb211c80319c", "b535a7bc6f52887645b6ba5e5e1a585c"
TOOL = {
    "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look", "gen_ai.tool.call.arguments": '{"at":1}',
    "gen_ai.tool.call.result": "7",
}  # fmt: skip
TOLD = "Trace exceeds maximum size (max bytes: 1000)"


def otlp(trace_id: str) -> dict[str, Any]:
    attributes = [{"key": key, "value": {"stringValue": value}} for key, value in TOOL.items()]
    span = {"traceId": trace_id, "spanId": trace_id[16:], "name": trace_id[-4:], "startTimeUnixNano": "5",
            "endTimeUnixNano": "9", "attributes": attributes}  # fmt: skip
    return {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}


def jaeger(trace_id: str) -> dict[str, Any]:
    span = {"traceID": trace_id, "spanID": trace_id[16:], "operationName": trace_id[:4], "startTime": 5, "duration": 4,
            "tags": [{"key": key, "type": "string", "value": value} for key, value in TOOL.items()]}  # fmt: skip
    return {"traceID": trace_id, "processes": {}, "spans": [span]}


def lines(*documents: Any) -> str:
    return "\n".join(json.dumps(document) for document in documents)


PARTS = {
    "tempo": lines({"trace": otlp(CUT), "status": "PARTIAL", "message": TOLD}, {"trace": otlp(WHOLE)}),
    "tempo, last": lines({"trace": otlp(WHOLE)}, {"trace": otlp(CUT), "status": "PARTIAL", "message": TOLD}),
    "a list of answers": json.dumps([{"trace": otlp(CUT), "status": 1, "message": TOLD}]) + "\n" + lines(otlp(WHOLE)),
    "jaeger": lines({"data": [jaeger(WHOLE), jaeger(CUT)], "errors": [{"code": 500, "msg": TOLD, "traceID": CUT}]}),
    "jaeger v3": lines({"result": otlp(CUT), "error": {"message": TOLD}}, {"result": otlp(WHOLE)}),
    "a trace id cut to 64 bits": lines({"trace": otlp("0" * 16 + CUT[16:]), "status": "PARTIAL", "message": TOLD},
                                       otlp(CUT), otlp(WHOLE)),
}  # fmt: skip


@boundary("look", kind="tool")
def look(at: int) -> Any:
    raise AssertionError("live")


@pytest.mark.parametrize("data", PARTS.values(), ids=PARTS)
@pytest.mark.parametrize("kept", [True, False])
def test_im_11_a_partial_trace_is_refused_by_name_and_its_neighbour_replayed(
    tmp_path: Path, data: str, kept: bool
) -> None:
    file = tmp_path / "answers.json"
    file.write_text(data)
    with open_store(tmp_path / "store", create=True) as store:
        imported = import_source(str(file), store)
        assert {run.run.trace_id: run.complete for run in imported.runs} == {CUT: False, WHOLE: True}
        assert {row.run_id: row.state for row in store.runs()} == {CUT: "incomplete", WHOLE: "complete"}

    def start(trace_id: str, **more: Any) -> Any:
        return replay(trace_id if kept else load(file, run=trace_id), store=tmp_path / "store", **more)

    with start(WHOLE):
        assert look(1) == "7"
    with pytest.raises(IncompleteRecording, match="only a part of the trace: Trace exceeds maximum size"), start(CUT):
        look(1)
    with start(CUT, allow_incomplete=True):
        assert look(1) == "7"
