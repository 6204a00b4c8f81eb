"""The entry points `opentelemetry_instrumentor`: `opentelemetry-instrument python agent.py` instruments what it finds.

Like every instrument of ours they are inert until a run is recorded or replayed.
"""

from __future__ import annotations

from collections.abc import Collection
from importlib import import_module
from typing import Any

from otel_replay.instruments import instrument, uninstrument

_Base: Any = import_module("opentelemetry.instrumentation.instrumentor").BaseInstrumentor


class _Instrumentor(_Base):  # type: ignore[misc]
    """One instrument, with the interface of OpenTelemetry's instrumentors."""

    name = ""
    needs: tuple[str, ...] = ()

    def instrumentation_dependencies(self) -> Collection[str]:
        return self.needs

    def _instrument(self, **kwargs: Any) -> None:
        instrument(self.name)

    def _uninstrument(self, **kwargs: Any) -> None:
        uninstrument(self.name)


class OpenAIInstrumentor(_Instrumentor):
    name = "openai"
    needs = ("openai >= 1.60",)


class AnthropicInstrumentor(_Instrumentor):
    name = "anthropic"
    needs = ("anthropic >= 0.45",)


class HttpxInstrumentor(_Instrumentor):
    name = "httpx"
    needs = ("httpx >= 0.27",)


class Httpx2Instrumentor(_Instrumentor):
    name = "httpx2"
    needs = ("httpx2 >= 2",)


class Urllib3Instrumentor(_Instrumentor):
    name = "urllib3"
    needs = ("urllib3 >= 2",)


class AiohttpInstrumentor(_Instrumentor):
    name = "aiohttp"
    needs = ("aiohttp >= 3.12",)


class HttpClientInstrumentor(_Instrumentor):
    name = "http_client"


class LangChainInstrumentor(_Instrumentor):
    name = "langchain"
    needs = ("langchain-core >= 1",)


class LangGraphInstrumentor(_Instrumentor):
    name = "langgraph"
    needs = ("langgraph >= 1",)


class OpenAIAgentsInstrumentor(_Instrumentor):
    name = "openai_agents"
    needs = ("openai-agents >= 0.24",)


class PydanticAIInstrumentor(_Instrumentor):
    name = "pydantic_ai"
    needs = ("pydantic-ai-slim >= 1.20",)


class LiteLLMInstrumentor(_Instrumentor):
    name = "litellm"
    needs = ("litellm >= 1.80",)


class GoogleGenAIInstrumentor(_Instrumentor):
    name = "google_genai"
    needs = ("google-genai >= 1.53",)


class MCPInstrumentor(_Instrumentor):
    name = "mcp"
    needs = ("mcp >= 1.20",)


class AutoGenInstrumentor(_Instrumentor):
    name = "autogen"
    needs = ("autogen-core >= 0.7",)


class CrewAIInstrumentor(_Instrumentor):
    name = "crewai"
    needs = ("crewai >= 1.10",)
