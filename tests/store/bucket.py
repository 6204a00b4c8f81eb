"""An S3 server on this machine, over HTTP, in a process of its own.

It is moto's, which needs nothing but Python, or the versitygw whose path `OTEL_REPLAY_TEST_S3` holds: a server that
people keep data in, built by tests/collector/build.sh.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import boto3

ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "AKIATESTKEYTESTKEY00",
    "AWS_SECRET_ACCESS_KEY": "secret/of+the-tests",
    "AWS_REGION": "eu-central-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


def environment(endpoint: str, folder: Path) -> dict[str, str]:
    """Return what leads a program to the server at `endpoint`, its own files below `folder`."""
    return {**ENVIRONMENT, "AWS_ENDPOINT_URL": endpoint, "OTEL_REPLAY_STATE": str(folder / "state")}


_SERVER = """
import socketserver, sys
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

class Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"
    def log(self, *_):
        pass

application = DomainDispatcherApplication(create_backend_app)
server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=Quiet)
print(server.server_port, flush=True)
server.serve_forever()
"""


class Bucket:
    """A bucket, and what a test does to it behind the store's back."""

    def __init__(self, endpoint: str, name: str) -> None:
        self.endpoint = endpoint
        self.name = name
        self.client = boto3.client(
            "s3",
            endpoint_url=endpoint,
            region_name=ENVIRONMENT["AWS_REGION"],
            aws_access_key_id=ENVIRONMENT["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=ENVIRONMENT["AWS_SECRET_ACCESS_KEY"],
        )
        self.client.create_bucket(
            Bucket=name, CreateBucketConfiguration={"LocationConstraint": ENVIRONMENT["AWS_REGION"]}
        )

    def keys(self, prefix: str = "") -> list[str]:
        """Every object below `prefix`, but those that only mark folders."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.name, Prefix=prefix)
        keys = [item["Key"] for page in pages for item in page.get("Contents", ())]
        return [key for key in keys if not key.endswith("/")]

    def parquet(self, prefix: str = "") -> list[str]:
        return [key for key in self.keys(prefix) if key.endswith(".parquet") and "/." not in key]

    def get(self, key: str) -> bytes:
        data: bytes = self.client.get_object(Bucket=self.name, Key=key)["Body"].read()
        return data

    def put(self, key: str, data: bytes) -> None:
        self.client.put_object(Bucket=self.name, Key=key, Body=data)

    def remove(self, key: str) -> None:
        self.client.delete_object(Bucket=self.name, Key=key)


@contextmanager
def s3_server() -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run the server; yields (its URL, its process)."""
    with tempfile.TemporaryDirectory() as folder:
        gateway = os.environ.get("OTEL_REPLAY_TEST_S3")
        port = _free_port() if gateway else 0
        process = _versitygw(gateway, folder, port) if gateway else _moto()
        try:
            if not port:
                assert process.stdout is not None
                port = int(process.stdout.readline())
            _wait_until_open(port, process)
            yield f"http://127.0.0.1:{port}", process
        finally:
            process.kill()
            process.communicate()


def _moto() -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", _SERVER], stdout=subprocess.PIPE, text=True)


def _versitygw(program: str, folder: str, port: int) -> subprocess.Popen[str]:
    for name in ("buckets", "notes"):
        os.mkdir(f"{folder}/{name}")
    keys = ["--access", ENVIRONMENT["AWS_ACCESS_KEY_ID"], "--secret", ENVIRONMENT["AWS_SECRET_ACCESS_KEY"]]
    return subprocess.Popen(
        [
            *(program, "--port", f"127.0.0.1:{port}", "--region", ENVIRONMENT["AWS_REGION"], *keys, "--quiet"),
            *("posix", "--sidecar", f"{folder}/notes", f"{folder}/buckets"),
        ],
        stdout=subprocess.DEVNULL,
        text=True,
    )


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _wait_until_open(port: int, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
