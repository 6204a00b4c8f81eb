"""OpenTelemetry GenAI conventions: messages on the span, in log events, or (until mid 2025) one event a message.

Sources: open-telemetry/semantic-conventions-genai (`gen-ai-spans.md`, `gen-ai-events.md`), util-genai 1.3b0, and
opentelemetry-instrumentation-openai-v2 2.1b0 for the older events.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from otel_replay.importers.genai import _fields, _messages
from otel_replay.importers.genai._call import Call, Message, Source, model_call, structure, tool_call

NAME = "OpenTelemetry GenAI"
CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY (SPAN_AND_EVENT with log records)"
_DETAILS = "gen_ai.client.inference.operation.details"
_STRUCTURE = ("invoke_agent", "create_agent", "invoke_workflow", "plan")
_MODEL = ("chat", "text_completion", "generate_content", "embeddings")
_OFFICIAL = tuple(
    f"opentelemetry.instrumentation.{name}" for name in ("genai.", "openai_v2", "google_genai", "vertexai", "botocore")
)
"""Scopes of OpenTelemetry's own instrumentations; the others below that name are OpenLLMetry's."""
_SETTINGS = {
    "com.anthropic.sdk.python": "ANTHROPIC_OPEN_TELEMETRY_TRACES_CONTENT_MODE=full",
    "pydantic-ai": "InstrumentationSettings(include_content=True)",
    "agent_framework": "ENABLE_SENSITIVE_DATA=true",
}


def matches(source: Source) -> bool:
    """True where the span follows the conventions: it names its operation, or carries their messages."""
    keys = ("gen_ai.operation.name", "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.tool.name")
    return any(key in source.attributes for key in keys) or bool(
        source.attributes.get("gen_ai.system") and source.attributes.get("gen_ai.request.model")
    )


def setting_for(scope: str) -> str:
    """Return the switch that keeps content off the spans of this scope."""
    if scope.startswith("opentelemetry.instrumentation.") and not scope.startswith(_OFFICIAL):
        return "TRACELOOP_TRACE_CONTENT=true"
    if scope.startswith("openinference"):
        return "OPENINFERENCE_HIDE_INPUTS=false, OPENINFERENCE_HIDE_OUTPUTS=false"
    return _SETTINGS.get(scope, CAPTURE)


def read(source: Source) -> Call | None:
    """Return what the span and its log records say of one call."""
    operation = source.text("gen_ai.operation.name")
    if operation == "execute_tool" or (not operation and source.text("gen_ai.tool.name")):
        return _tool(source)
    if operation in _STRUCTURE:
        name = source.text("gen_ai.agent.name", "gen_ai.workflow.name", "gen_ai.agent.id") or source.span.name
        given = source.read("gen_ai.input.messages")
        return structure(source, NAME, name, given, source.read("gen_ai.output.messages"))
    if operation == "retrieval":
        return _retrieval(source)
    if operation and operation not in _MODEL:
        return structure(source, NAME, source.span.name, _fields.Field(""), _fields.Field(""))
    return _model(source)


def _tool(source: Source) -> Call:
    name = source.text("gen_ai.tool.name") or source.span.name.removeprefix("execute_tool ").strip()
    result = source.read("gen_ai.tool.call.result")
    given = source.read("gen_ai.tool.call.arguments")
    if not given.present and not result.present:  # Koog names the tool, and keeps content where OpenInference does
        given, result = source.read("input.value"), source.read("output.value")
    call = tool_call(source, NAME, name, given, result)
    call.setting = setting_for(source.scope)
    if result.parsed:
        call.notes.append(f"{result.key} is JSON text, read as the value; the tool may have returned the text")
    elif isinstance(result.value, str) and _fields.spells_value(result.value):
        call.notes.append(f"{result.key} is kept as text; the tool may have returned the value that it spells")
    return call


def _retrieval(source: Source) -> Call:
    name = source.text("gen_ai.data_source.id") or source.span.name
    return tool_call(
        source, NAME, name, source.read("gen_ai.retrieval.query.text"), source.read("gen_ai.retrieval.documents")
    )


def _content(source: Source) -> Mapping[str, object]:
    """Return the attributes that hold content: the span's own, else those of its log record or span event."""
    keys = ("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions", "gen_ai.tool.definitions")
    found: dict[str, object] = {key: source.attributes[key] for key in keys if key in source.attributes}
    carriers: list[Mapping[str, object]] = []
    for log in source.logs:
        if log.event_name == _DETAILS or log.get("event.name") == _DETAILS:
            body = _fields.plain(log.body)
            carriers.append({**_fields.attributes_of(log.attributes), **(body if isinstance(body, dict) else {})})
    carriers += [_fields.attributes_of(event.attributes) for event in source.span.events if event.name == _DETAILS]
    for carrier in carriers:
        for key in keys:
            if key in carrier:
                found.setdefault(key, carrier[key])
    return found


def _model(source: Source) -> Call:
    call = model_call(source, NAME)
    content = _content(source)
    fill_messages(call, content)
    if call.messages is None and call.answers is None:
        _old_events(call, source)
    call.raw_blocks = _raw_blocks(source, call)
    call.setting = setting_for(source.scope)
    return call


def _raw_blocks(source: Source, call: Call) -> list[Any] | None:
    """Return Anthropic's content blocks where some attribute keeps them raw beside a view that lost the signatures."""
    if not any(part.get("type") == "reasoning" for message in call.answers or () for part in message["parts"]):
        return None
    for key, value in source.attributes.items():
        if key.startswith("gen_ai.") or not (isinstance(value, str) and '"signature"' in value):
            continue
        blocks = _fields.read(source.attributes, key).value
        if isinstance(blocks, dict):
            blocks = blocks.get("content")
        if isinstance(blocks, list) and any(isinstance(b, dict) and b.get("type") == "thinking" for b in blocks):
            call.notes.append(f"the content blocks are the raw ones of {key}")
            return blocks
    return None


def fill_messages(call: Call, content: Mapping[str, object]) -> None:
    """Fill input, answers and tools of `call` from the four content attributes; what is cut becomes damage."""
    given = _fields.read(content, "gen_ai.input.messages", must_be_json=True)
    answered = _fields.read(content, "gen_ai.output.messages", must_be_json=True)
    system = _fields.read(content, "gen_ai.system_instructions")
    tools = _fields.read(content, "gen_ai.tool.definitions", must_be_json=True)
    for field in (given, answered, system, tools):
        if field.damage:
            call.damage.append(field.damage)
    if given.whole:
        call.messages = _messages.from_parts(given.value)
    if system.whole and (call.messages is not None or not given.present):
        call.messages = _messages.system_message(system.value) + (call.messages or [])
    if answered.whole:
        call.answers = _messages.from_parts(answered.value)
    if tools.whole and isinstance(tools.value, list):
        call.tools = [openai_tool(tool) for tool in tools.value]


def openai_tool(tool: object) -> object:
    """Return a tool definition in OpenAI's form: the conventions stand it flat, OpenAI under `function`."""
    if not isinstance(tool, Mapping) or tool.get("type") not in (None, "function") or "function" in tool:
        return tool
    function = {key: value for key, value in tool.items() if key != "type" and value is not None}
    return {"type": "function", "function": function}


def _events(source: Source) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (event name, body) of the older events: log records, or events of the span."""
    for log in source.logs:
        name = log.event_name or str(log.get("event.name") or "")
        body = _fields.plain(log.body)
        if isinstance(body, str):
            body = _fields.parse(name, body).value
        yield name, body if isinstance(body, dict) else _fields.attributes_of(log.attributes)
    for event in source.span.events:
        attributes = _fields.attributes_of(event.attributes)
        inner = _fields.read(attributes, "gen_ai.event.content").value
        yield event.name, inner if isinstance(inner, dict) else attributes


def _old_events(call: Call, source: Source) -> None:
    messages: list[Message] = []
    answers: list[tuple[int, Message]] = []
    for name, body in _events(source):
        if name == "gen_ai.choice":
            inner = body.get("message")
            message = _messages.from_openai(inner if isinstance(inner, dict) else body)
            message["role"] = message["role"] or "assistant"
            if body.get("finish_reason"):
                message["finish_reason"] = body["finish_reason"]
            answers.append((_fields.as_int(body.get("index")) or 0, message))
        elif name.startswith("gen_ai.") and name.endswith(".message"):
            role = name.removeprefix("gen_ai.").removesuffix(".message")
            messages.append(_messages.from_openai({"role": role, **body}))
    if messages and any(message["parts"] for message in messages):
        call.messages = messages
    elif messages:
        call.notes.append("the message events carry no content")
    if answers and any(message["parts"] for _, message in answers):
        call.answers = [message for _, message in sorted(answers, key=lambda pair: pair[0])]
    if call.messages and not any(part for message in call.messages for part in message["parts"]):
        call.messages = None
