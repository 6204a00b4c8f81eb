"""What one foreign span says about one call, whatever the convention: the middle form of this room.

Conventions fill a Call; `resolve` makes one Call of several spans; `rebuild` turns it into the vendor's wire form.
Messages stand in the form of the OpenTelemetry GenAI conventions: `{"role", "parts": [...], "finish_reason"?}`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from otel_replay.envelope import Attempt
from otel_replay.importers.genai import _fields
from otel_replay.span import LogRecord, Span

Role: TypeAlias = Literal["model", "tool", "structure"]
Message: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Fault:
    """A failure as the span tells it. `type` is "openai.BadRequestError", "BadRequestError", "429" or ""."""

    type: str
    message: str
    escaped: bool = True


@dataclass(slots=True)
class Call:
    """One call as one span tells it. What is None was not recorded.

    `request` and `response` are the vendor's own wire form where the convention has kept it; `messages`, `tools` and
    `answers` are the middle form. `damage` is what makes the content untrustworthy, `notes` what one should know.
    `joins`: it tells the end of an earlier call. `end_ns` 0: the end is the span's.
    Of a call that was not told by its messages (role "tool"): `kind` is the boundary's kind where it is not tool,
    `exact` says that what is served is what was there, `origin` is what else its envelope's pins say of the import.
    """

    span: Span
    convention: str
    role: Role
    name: str = ""
    provider: str = ""
    api: str = ""
    operation: str = ""
    model: str = ""
    answered_model: str = ""
    params: dict[str, Any] = field(default_factory=dict)
    messages: list[Message] | None = None
    tools: list[Any] | None = None
    request: dict[str, Any] | None = None
    answers: list[Message] | None = None
    response: dict[str, Any] | None = None
    vectors: int | None = None
    arguments: _fields.Field = field(default_factory=lambda: _fields.Field(""))
    result: _fields.Field = field(default_factory=lambda: _fields.Field(""))
    response_id: str = ""
    finish_reasons: list[str] = field(default_factory=list)
    usage: dict[str, int] = field(default_factory=dict)
    extras: dict[str, Any] = field(default_factory=dict)
    raw_blocks: list[Any] | None = None
    fault: Fault | None = None
    streamed: bool = False
    mcp: bool = False
    joins: bool = False
    end_ns: int = 0
    notes: list[str] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)
    setting: str = ""
    spans: tuple[Span, ...] = ()
    kind: str = ""
    exact: bool = False
    attempts: list[Attempt] = field(default_factory=list)
    origin: dict[str, Any] = field(default_factory=dict)

    @property
    def has_input(self) -> bool:
        if self.role != "model":
            return self.arguments.whole
        return bool(self.messages) or self.request is not None

    @property
    def has_output(self) -> bool:
        if self.role != "model":
            return self.result.whole
        return bool(self.answers) or self.response is not None or bool(self.raw_blocks)

    @property
    def fullness(self) -> int:
        """How much of the call is here: 2 for what it asked, 2 for what came back, less for damage."""
        came_back = self.has_output or self.fault is not None
        return 2 * self.has_input + 2 * came_back + (not self.damage)


@dataclass(frozen=True, slots=True)
class Source:
    """A span with its attributes as plain values, and the log records that belong to it."""

    span: Span
    attributes: Mapping[str, object]
    logs: Sequence[LogRecord] = ()

    def text(self, *keys: str) -> str:
        """Return the first of `keys` that holds text, or ""."""
        for key in keys:
            value = self.attributes.get(key)
            if isinstance(value, str) and value:
                return value
        return ""

    def count(self, *keys: str) -> int | None:
        """Return the first of `keys` that holds a whole number, also as text."""
        return next((n for n in (_fields.as_int(self.attributes.get(key)) for key in keys) if n is not None), None)

    def read(self, key: str, *, must_be_json: bool = False, text: bool = False) -> _fields.Field:
        return _fields.read(self.attributes, key, must_be_json=must_be_json, text=text)

    @property
    def scope(self) -> str:
        return self.span.scope.name


def fault_of(source: Source) -> Fault | None:
    """Return the failure that the span records, or None.

    An exception event alone proves nothing (it may have been handled): the status or `error.type` decides.
    """
    span, event = source.span, None
    for candidate in span.events:
        if candidate.name == "exception":
            event = _fields.attributes_of(candidate.attributes)
    error_type = source.text("error.type")
    if span.status_code != 2 and not error_type:
        return None
    event = event or {}
    name = str(event.get("exception.type") or error_type or "")
    if error_type.rpartition(".")[2] == name and "." in error_type:
        name = error_type
    message = event.get("exception.message")
    text = str(message) if message is not None else span.status_message or source.text("error.message")
    return Fault(name, text)


def usage_of(source: Source) -> dict[str, int]:
    """Return token counts under the names `input`, `output`, `total`, `cached`, `reasoning`, as far as recorded."""
    names = {
        "input": ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt",
                  "llm.usage.prompt_tokens", "ai.usage.promptTokens", "ai.usage.inputTokens"),
        "output": ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion",
                   "llm.usage.completion_tokens", "ai.usage.completionTokens", "ai.usage.outputTokens"),
        "total": ("gen_ai.usage.total_tokens", "llm.usage.total_tokens", "llm.token_count.total"),
        "cached": ("gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_read_input_tokens",
                   "llm.token_count.prompt_details.cache_read"),
        "reasoning": ("gen_ai.usage.reasoning.output_tokens", "gen_ai.usage.reasoning_tokens",
                      "llm.usage.reasoning_tokens", "llm.token_count.completion_details.reasoning",
                      "gen_ai.usage.details.reasoning_tokens"),
    }  # fmt: skip
    found = {name: source.count(*keys) for name, keys in names.items()}
    return {name: count for name, count in found.items() if count is not None}


_PARAMS = {
    "temperature": ("gen_ai.request.temperature",),
    "top_p": ("gen_ai.request.top_p",),
    "top_k": ("gen_ai.request.top_k",),
    "max_tokens": ("gen_ai.request.max_tokens",),
    "seed": ("gen_ai.request.seed", "gen_ai.openai.request.seed"),
    "frequency_penalty": ("gen_ai.request.frequency_penalty", "llm.frequency_penalty"),
    "presence_penalty": ("gen_ai.request.presence_penalty", "llm.presence_penalty"),
    "n": ("gen_ai.request.choice.count",),
}


def params_of(source: Source) -> dict[str, Any]:
    """Return the sampling parameters of the request under their wire names."""
    found: dict[str, Any] = {}
    for name, keys in _PARAMS.items():
        value = next((_fields.as_number(source.attributes[key]) for key in keys if key in source.attributes), None)
        if value is not None:
            found[name] = value
    stop = source.read("gen_ai.request.stop_sequences").value
    if isinstance(stop, list) and stop:
        found["stop"] = stop
    user = source.text("gen_ai.user", "llm.user")
    if user:
        found["user"] = user
    effort = source.text("gen_ai.request.reasoning.level", "gen_ai.request.reasoning_effort")
    if effort:
        found["reasoning_effort"] = effort
    tier = source.text("openai.request.service_tier")
    if tier:
        found["service_tier"] = tier
    if found.get("n") == 1:
        del found["n"]
    return found


def model_call(source: Source, convention: str) -> Call:
    """Return a model Call with what nearly all conventions share: provider, models, parameters, usage, failure."""
    reasons = source.read("gen_ai.response.finish_reasons").value
    reason = source.text("llm.finish_reason")
    extras = {
        name: source.attributes[key]
        for name, keys in {
            "system_fingerprint": ("openai.response.system_fingerprint", "gen_ai.openai.response.system_fingerprint",
                                   "gen_ai.openai.system_fingerprint", "gen_ai.openai.response.system_fingerprint"),
            # openai-v2 2.1b0 writes the response's tier under the request's name
            "service_tier": ("gen_ai.openai.request.service_tier", "gen_ai.openai.response.service_tier",
                             "openai.response.service_tier"),
        }.items()
        for key in keys
        if key in source.attributes
    }  # fmt: skip
    call = Call(
        span=source.span,
        convention=convention,
        role="model",
        provider=source.text("gen_ai.provider.name", "gen_ai.system", "llm.provider", "llm.system"),
        api=source.text("openai.api.type"),
        operation=source.text("gen_ai.operation.name") or "chat",
        model=source.text("gen_ai.request.model", "llm.model_name"),
        answered_model=source.text("gen_ai.response.model"),
        params=params_of(source),
        response_id=source.text("gen_ai.response.id"),
        finish_reasons=[str(item) for item in reasons] if isinstance(reasons, list) else [reason] if reason else [],
        usage=usage_of(source),
        extras=extras,
        fault=fault_of(source),
        streamed=any(
            source.attributes.get(key) in (True, "true", "True")
            for key in ("gen_ai.request.stream", "gen_ai.is_streaming", "llm.is_streaming", "gen_ai.request.is_stream")
        ),
    )
    call.damage.extend(_fields.integrity_problems(source.span, source.attributes))
    return call


def tool_call(source: Source, convention: str, name: str, arguments: _fields.Field, result: _fields.Field) -> Call:
    """Return a tool Call; cut or scrubbed arguments and results are its damage, ambiguous texts its notes."""
    call = Call(span=source.span, convention=convention, role="tool", name=name, arguments=arguments, result=result,
                fault=fault_of(source))  # fmt: skip
    take_io(call)
    call.damage.extend(_fields.integrity_problems(source.span, source.attributes))
    return call


def take_io(call: Call) -> None:
    """Move what the arguments and the result say about themselves to the call's damage and notes."""
    for io in (call.arguments, call.result):
        if io.damage:
            call.damage.append(io.damage)
        if io.note:
            call.notes.append(io.note)


def structure(source: Source, convention: str, name: str, arguments: _fields.Field, result: _fields.Field) -> Call:
    """Return an agent, workflow, chain or plain function span: a parent of others, seldom a call of its own."""
    return Call(span=source.span, convention=convention, role="structure", name=name, arguments=arguments,
                result=result, fault=fault_of(source))  # fmt: skip
