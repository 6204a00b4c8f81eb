"""TLS and mTLS on both receivers, with certificates made for the test."""

from __future__ import annotations

import http.client
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest

from otel_replay.errors import UsageError
from otel_replay.sink import Sink, Tls

from .conftest import BODY, PROTOBUF, a_span, request
from .file_sink import wait_for
from .test_grpc import TRACES


def _openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ca.pem, server.pem, client.pem and their keys."""
    folder = tmp_path_factory.mktemp("pki")
    new = ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    _openssl(folder, *new, "-x509", "-subj", "/CN=test ca", "-keyout", "ca.key", "-out", "ca.pem")
    (folder / "san").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    for name in ("server", "client"):
        _openssl(folder, *new, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        signed = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "san")
        _openssl(folder, "x509", "-req", "-in", f"{name}.csr", *signed, "-out", f"{name}.pem")
    return folder


def post(address: str, pki: Path, *, client: bool) -> int:
    context = ssl.create_default_context(cafile=str(pki / "ca.pem"))
    if client:
        context.load_cert_chain(pki / "client.pem", pki / "client.key")
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPSConnection(host, int(port), timeout=10, context=context)
    try:
        connection.request("POST", "/v1/traces", BODY, {"Content-Type": PROTOBUF})
        return connection.getresponse().status
    finally:
        connection.close()


def call(address: str, pki: Path, *, client: bool) -> bytes:
    own = [(pki / f"client.{end}").read_bytes() for end in ("key", "pem")] if client else [None, None]
    credentials = grpc.ssl_channel_credentials((pki / "ca.pem").read_bytes(), *own)
    with grpc.secure_channel(address, credentials) as channel:
        answer: bytes = channel.unary_unary(TRACES)(BODY, timeout=5)
        return answer


def test_tls(start: Callable[..., Sink], pki: Path, tmp_path: Path) -> None:
    sink = start(tls=Tls(str(pki / "server.pem"), str(pki / "server.key")))
    assert post(sink.http_address, pki, client=False) == 200
    assert call(sink.grpc_address, pki, client=False) == b""
    assert wait_for(2, tmp_path / "out") == [a_span(0), a_span(0)]
    with pytest.raises((http.client.HTTPException, OSError)):
        request(sink.http_address, BODY, Content_Type=PROTOBUF)


def test_mtls_takes_only_clients_with_a_certificate(start: Callable[..., Sink], pki: Path, tmp_path: Path) -> None:
    sink = start(tls=Tls(str(pki / "server.pem"), str(pki / "server.key"), str(pki / "ca.pem")))
    with pytest.raises((ssl.SSLError, http.client.HTTPException, OSError)):
        post(sink.http_address, pki, client=False)
    with pytest.raises(grpc.RpcError) as caught:
        call(sink.grpc_address, pki, client=False)
    assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
    assert post(sink.http_address, pki, client=True) == 200
    assert call(sink.grpc_address, pki, client=True) == b""
    assert len(wait_for(2, tmp_path / "out")) == 2


def test_files_that_are_not_there_are_named(start: Callable[..., Sink], pki: Path) -> None:
    with pytest.raises(UsageError, match="TLS files cannot be used"):
        start(tls=Tls(str(pki / "nothing.pem"), str(pki / "server.key")))
    with pytest.raises(UsageError, match="TLS files cannot be used"):
        start(tls=Tls(str(pki / "nothing.pem"), str(pki / "server.key")), http_address="")
