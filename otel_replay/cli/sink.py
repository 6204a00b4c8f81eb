"""`otel-replay sink`."""

from __future__ import annotations

import sys
from typing import Any

import click

from otel_replay.cli._child import store_folder, store_option
from otel_replay.cli._units import age, size
from otel_replay.errors import UsageError

_FILE = click.Path(exists=True, dir_okay=False)
EXIT_NOT_DRAINED = 3
HOUSEKEEPING_SECONDS = 3600.0
"""How often retention looks where no one says."""


@click.command(epilog="Example: otel-replay sink --store traces --grpc 127.0.0.1:4317 --http 127.0.0.1:4318")
@store_option
@click.option("--grpc", metavar="HOST:PORT", default="127.0.0.1:4317", show_default=True, help='"off" for none.')
@click.option("--http", metavar="HOST:PORT", default="127.0.0.1:4318", show_default=True, help='"off" for none.')
@click.option("--token", "tokens", multiple=True, help="A bearer token to ask for; may be given more than once.")
@click.option("--token-file", type=_FILE, help="A file of bearer tokens, one a line, kept out of sight.")
@click.option("--tls-cert", type=_FILE, help="The server's certificate (PEM).")
@click.option("--tls-key", type=_FILE, help="Its private key (PEM).")
@click.option("--client-ca", type=_FILE, help="Ask clients for a certificate that this authority signed (mTLS).")
@click.option("--wal", metavar="FOLDER", help="The write-ahead log, on local disk (default: wal in the store).")
@click.option("--wal-max", type=size, metavar="SIZE", help="Bytes that may wait there, such as 8GB.")
@click.option("--compact-every", type=age, metavar="AGE", help="Take small files together so often, such as 10m.")
@click.option("--retain", type=age, metavar="AGE", help="Remove runs older than this, such as 30d, each time.")
@click.option("--retain-bytes", type=size, metavar="SIZE", help="Remove the oldest runs until the store is so small.")
@click.option("--log", "log", type=click.Choice(["auto", "text", "json", "none"]), default="auto", show_default=True)
def command(
    store: str | None,
    grpc: str,
    http: str,
    tokens: tuple[str, ...],
    token_file: str | None,
    tls_cert: str | None,
    tls_key: str | None,
    client_ca: str | None,
    wal: str | None,
    wal_max: int | None,
    compact_every: float | None,
    retain: float | None,
    retain_bytes: int | None,
    log: str,
) -> None:
    """Receive OTLP (gRPC and HTTP) and keep it in a store, until SIGTERM or Ctrl-C.

    What is acknowledged is durable. Failing, pinned and running runs are never removed.

    Exit codes: 0 drained, 2 usage, 3 some spans wait on disk for the next start, 8 a folder or address cannot be used.
    """
    from otel_replay.location import locate
    from otel_replay.sink import SinkConfig, Tls
    from otel_replay.store import open_store

    if bool(tls_cert) != bool(tls_key):
        raise UsageError("--tls-cert and --tls-key go together")
    if client_ca and not tls_cert:
        raise UsageError("--client-ca needs --tls-cert and --tls-key: certificates are shown within TLS")
    if token_file:
        with open(token_file, encoding="utf-8") as file:
            tokens = (*tokens, *filter(None, map(str.strip, file)))
        if not tokens:
            raise UsageError(f"{token_file} holds no token: nobody would be asked for one")
    folder = store_folder(store)
    open_store(folder, create=True).close()  # a folder that cannot be used is said now, not by the converter
    more: dict[str, Any] = {} if wal_max is None else {"wal_bytes_max": wal_max}
    config = SinkConfig(
        span_sink="otel_replay.api:open_sink",
        span_sink_args=(folder,),
        wal_folder=wal or str(locate(folder).folder / "wal"),
        grpc_address=_address(grpc),
        http_address=_address(http),
        tokens=tokens,
        tls=Tls(tls_cert, tls_key, client_ca or "") if tls_cert and tls_key else None,
        housekeeper="otel_replay.housekeeping:keep",
        housekeeper_args=(folder, *("" if asked is None else str(asked) for asked in (retain, retain_bytes))),
        housekeeping_seconds=_housekeeping_seconds(compact_every, retain, retain_bytes),
        log_format=log,  # type: ignore[arg-type]  # click lets only the four through
        **more,
    )
    sys.exit(0 if _serve(config) else EXIT_NOT_DRAINED)


def _housekeeping_seconds(compact_every: float | None, *retention: float | None) -> float:
    if compact_every is not None and compact_every < 1:
        raise UsageError("--compact-every is a second at least: each pass reads the store")
    asked = any(limit is not None for limit in retention)
    return compact_every if compact_every is not None else HOUSEKEEPING_SECONDS if asked else 0.0


def _address(text: str) -> str:
    from otel_replay.sink.config import split_address

    if text in ("off", ""):
        return ""
    split_address(text)  # raises UsageError
    return text


def _serve(config: Any) -> bool:
    from otel_replay.sink import serve

    provider = _meter_provider()
    try:
        return serve(config, provider.get_meter("otel_replay.sink") if provider is not None else None)
    except ModuleNotFoundError as fault:
        if fault.name != "grpc":
            raise
        raise UsageError("the gRPC receiver needs grpcio: pip install 'otel-replay[sink]', or --grpc off") from None
    finally:
        if provider is not None:
            provider.shutdown()


def _meter_provider() -> Any:
    """Return what exports the sink's figures where OTEL_METRICS_EXPORTER asks for it, or None."""
    from otel_replay import settings

    names, protocol = settings.metrics_exporters()
    if not names:
        return None
    from otel_replay.otel.meters import meter_provider

    return meter_provider(names, protocol, "otel-replay-sink")
