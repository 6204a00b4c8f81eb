"""A MeterProvider as OpenTelemetry's own environment variables ask for it: for programs of ours that run by themselves.

Source: opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables (OTEL_METRICS_EXPORTER,
OTEL_EXPORTER_OTLP_PROTOCOL, OTEL_METRIC_EXPORT_INTERVAL, OTEL_SDK_DISABLED); the SDK reads all others itself.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any, Final

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource

from otel_replay.errors import UsageError

_GROUP: Final = "opentelemetry_metrics_exporter"
_OTLP: Final = {"grpc": "otlp_proto_grpc", "http/protobuf": "otlp_proto_http"}


def meter_provider(exporters: str, protocol: str, service: str) -> Any:
    """Return a provider that exports to each of `exporters` (names divided by commas), for a service of that name.

    OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win over `service`. Raises UsageError where an exporter isn't
    installed.
    """
    readers = [PeriodicExportingMetricReader(_exporter(name, protocol)) for name in _names(exporters)]
    # The SDK's own detector reads the environment; merged last, it wins.
    resource = Resource({"service.name": service}).merge(_of_environment())
    return MeterProvider(resource=resource, metric_readers=readers)


def _names(exporters: str) -> list[str]:
    return [name for part in exporters.split(",") if (name := part.strip()) and name != "none"]


def _of_environment() -> Resource:
    found = Resource.create()
    told = {key: value for key, value in found.attributes.items() if not str(value).startswith("unknown_service")}
    return Resource(told, found.schema_url)


def _exporter(name: str, protocol: str) -> Any:
    wanted = _OTLP.get(protocol or "grpc", protocol) if name == "otlp" else name
    for found in entry_points(group=_GROUP, name=wanted):
        return found.load()()
    raise UsageError(
        f"OTEL_METRICS_EXPORTER={name}: no exporter of metrics called {wanted!r} is installed "
        "(otlp: pip install opentelemetry-exporter-otlp)"
    )
