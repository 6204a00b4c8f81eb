"""OTLP/gRPC: the trace and log services, and the standard health check. The only file that knows gRPC.

Source: opentelemetry-proto `docs/specification.md` (OTLP/gRPC) and `collector/*/v1`; `grpc/health/v1/health.proto`.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NoReturn

import grpc

from ..errors import UsageError
from ..wire import response
from .config import SinkConfig, Tls
from .intake import Intake, Refused

_METHODS: Final = {
    "/opentelemetry.proto.collector.trace.v1.TraceService/Export": "traces",
    "/opentelemetry.proto.collector.logs.v1.LogsService/Export": "logs",
}
_HEALTH: Final = "/grpc.health.v1.Health/Check"
_CODES: Final = {
    "bad": grpc.StatusCode.INVALID_ARGUMENT,
    # Without RetryInfo a client takes RESOURCE_EXHAUSTED for final; with it, for "come back later".
    "busy": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "unavailable": grpc.StatusCode.UNAVAILABLE,
}
_SERVING: Final = b"\x08\x01"
_NOT_SERVING: Final = b"\x08\x02"


def _abort(context: Any, refused: Refused) -> NoReturn:
    code = _CODES[refused.kind]
    details = response.status(code.value[0], str(refused), refused.retry_seconds)
    context.set_trailing_metadata((("grpc-status-details-bin", details),))
    context.abort(code, str(refused).encode("ascii", "backslashreplace").decode())
    raise AssertionError("abort raises")


def _not_taken(_request: bytes, context: Any) -> NoReturn:
    context.abort(grpc.StatusCode.UNIMPLEMENTED, "only traces and logs are taken here: no metrics, no profiles")
    raise AssertionError("abort raises")


class _Services(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpcio has no types
    def __init__(self, intake: Intake) -> None:
        self._intake = intake

    def service(self, handler_call_details: Any) -> Any:
        """Return the handler of a method, None for one that is not ours."""
        method = handler_call_details.method
        if method == _HEALTH:
            return grpc.unary_unary_rpc_method_handler(self._health)
        signal = _METHODS.get(method)
        if signal is None and method.startswith("/opentelemetry.proto.collector."):
            return grpc.unary_unary_rpc_method_handler(_not_taken)
        if signal is None:
            return None

        def export(data: bytes, context: Any) -> bytes:
            return self._export(signal, data, context)

        return grpc.unary_unary_rpc_method_handler(export)

    def _health(self, _request: bytes, _context: Any) -> bytes:
        return _NOT_SERVING if self._intake.not_ready() else _SERVING

    def _export(self, signal: str, data: bytes, context: Any) -> bytes:
        given = {key: text for key, text in context.invocation_metadata() if key == "authorization"}
        if not self._intake.authorized(str(given.get("authorization", ""))):
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "a bearer token is required")
        try:
            self._intake.memory.take(len(data))
            try:
                taken = self._intake.take("grpc", signal, data)
            finally:
                self._intake.memory.give_back(len(data))
        except Refused as refused:
            _abort(context, refused)
        return response.export_response(taken.rejected, taken.message)


class GrpcReceiver:
    """The gRPC server. `start` returns at once; `stop` answers what is under way first."""

    def __init__(self, config: SinkConfig, intake: Intake) -> None:
        self._pool = ThreadPoolExecutor(config.grpc_workers, thread_name_prefix="otel-replay-grpc")
        self._server = grpc.server(
            self._pool,
            handlers=(_Services(intake),),
            options=(
                ("grpc.max_receive_message_length", config.message_bytes_max),
                ("grpc.max_concurrent_streams", 64),
                ("grpc.so_reuseport", 0),
                ("grpc.keepalive_permit_without_calls", 1),
                ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
            ),
        )
        host, _, _ = config.grpc_address.rpartition(":")
        try:
            if config.tls is None:
                port = self._server.add_insecure_port(config.grpc_address)
            else:
                port = self._server.add_secure_port(config.grpc_address, _credentials(config.tls))
        except RuntimeError as fault:
            raise UsageError(f"cannot listen on {config.grpc_address}: {fault}") from fault
        if port == 0:
            raise UsageError(f"cannot listen on {config.grpc_address}")
        self.address = f"{host}:{port}"

    def start(self) -> None:
        """Begin to answer."""
        self._server.start()

    def stop(self, grace_seconds: float) -> None:
        """Accept no more, let calls under way end."""
        self._server.stop(grace_seconds).wait(grace_seconds + 1)
        self._pool.shutdown(wait=False)


def _credentials(tls: Tls) -> Any:
    try:
        key, cert = Path(tls.key_file).read_bytes(), Path(tls.cert_file).read_bytes()
        ca = Path(tls.client_ca_file).read_bytes() if tls.client_ca_file else None
    except OSError as fault:
        raise UsageError(f"the TLS files cannot be used: {fault}") from fault
    return grpc.ssl_server_credentials([(key, cert)], ca, require_client_auth=ca is not None)
