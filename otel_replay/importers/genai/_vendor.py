"""Which vendor's call a span tells of, and thereby the boundary's name: what our own instruments call it.

Provider first, then the instrumentation's scope, then the shape of ids and bodies; the model's name is the last guess.
"""

from __future__ import annotations

from otel_replay.importers.genai._call import Call

OPENAI_CHAT = "openai.chat.completions"
OPENAI_RESPONSES = "openai.responses"
OPENAI_EMBEDDINGS = "openai.embeddings"
OPENAI_COMPLETIONS = "openai.completions"
ANTHROPIC = "anthropic.messages"

_OPENAI_PROVIDERS = ("openai", "azure", "az.ai.openai", "azure.ai.openai", "azure_openai")
_RESPONSES_NAMES = ("openai.response", "Responses API", "Response")
"""Span names of OpenLLMetry, Logfire and OpenInference for the Responses API: all that a failed call shows of it."""
_MODELS = (("claude", "anthropic"), ("gpt-", "openai"), ("o1", "openai"), ("o3", "openai"), ("o4", "openai"),
           ("chatgpt", "openai"), ("text-embedding", "openai"), ("gemini", "gcp.gemini"))  # fmt: skip


def vendor_of(call: Call) -> str:
    """Return "openai", "anthropic", or the provider's name as recorded ("" where nothing tells)."""
    scopes = [span.scope.name.lower() for span in (*call.spans, call.span)]
    provider = call.provider.lower()
    if any("openai_agents" in scope for scope in scopes) or provider in _OPENAI_PROVIDERS:
        return "openai"
    if provider == "anthropic" or any("anthropic" in scope.rpartition(".")[2] for scope in scopes):
        return "anthropic"
    if any(part in scope for scope in scopes for part in (".openai", "openai_v2")):
        return "openai"  # DeepSeek, Groq, Together: other providers, called through OpenAI's client
    if provider and provider not in ("langchain", "langgraph", "microsoft.agent_framework"):
        return provider
    shape = _by_shape(call)
    if shape:
        return shape
    for name, vendor in _MODELS:
        if (call.model or call.answered_model).lower().startswith(name):
            call.notes.append(f"the provider is guessed from the model's name: {vendor}")
            return vendor
    return provider


def _by_shape(call: Call) -> str:
    body = call.response or {}
    identity = call.response_id or str(body.get("id") or "")
    if identity.startswith(("chatcmpl-", "resp_")) or str(body.get("object", "")).startswith(
        ("chat.completion", "response")
    ):
        return "openai"
    if identity.startswith("msg_") or body.get("type") == "message" or call.raw_blocks:
        return "anthropic"
    if "candidates" in body:
        return "gcp.gemini"
    return ""


def boundary_of(call: Call) -> str:
    """Return the boundary's name: `openai.chat.completions`, `anthropic.messages`, or `chat <provider>`."""
    vendor = vendor_of(call)
    if vendor == "openai":
        if call.operation == "embeddings":
            return OPENAI_EMBEDDINGS
        if call.operation == "text_completion":
            return OPENAI_COMPLETIONS
        return OPENAI_RESPONSES if _is_responses(call) else OPENAI_CHAT
    if vendor == "anthropic":
        return ANTHROPIC
    operation = "embeddings" if call.operation == "embeddings" else "chat"
    return f"{operation} {vendor}" if vendor else operation


def _is_responses(call: Call) -> bool:
    body = call.response or {}
    return (
        call.api == "responses"
        or call.response_id.startswith("resp_")
        or body.get("object") == "response"
        or isinstance(body.get("output"), list)
        or call.span.name.startswith(_RESPONSES_NAMES)
        or (call.request is not None and "input" in call.request and "messages" not in call.request)
    )
