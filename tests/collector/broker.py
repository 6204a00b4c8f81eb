"""A real Apache Kafka of one node (KRaft) on this machine, that is killed and comes back on the same port."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from pathlib import Path

from .conftest import CACHE, free_port

_CLUSTER = "AAAAAAAAAAAAAAAAAAAAAQ"
_PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={folder}/data
num.partitions=2
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
message.max.bytes=16777216
"""


class Broker:
    """A broker that takes messages as large as kafka-producer.yaml makes them. A context manager."""

    def __init__(self, folder: Path) -> None:
        java = shutil.which("java")
        assert java, "the broker needs java"
        jars = CACHE / "kafka"
        assert (jars / "stamp").exists(), f"{jars} is not complete: run tests/collector/build.sh kafka"
        self._java = [java, "-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{jars}/*"]
        self._folder = folder / "kafka"
        self._folder.mkdir()
        self._port = free_port()
        self.address = f"127.0.0.1:{self._port}"
        self._properties = self._folder / "server.properties"
        self._properties.write_text(_PROPERTIES.format(port=self._port, controller=free_port(), folder=self._folder))
        format_it = ["kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(self._properties)]
        subprocess.run([*self._java, *format_it], check=True, capture_output=True, timeout=60)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start, also anew after a kill; return once it listens."""
        with open(self._folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [*self._java, "kafka.Kafka", str(self._properties)], stdout=log, stderr=log
            )
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", self._port), 1).close()
                return
            except OSError:
                ended = self._process.poll() is not None or time.monotonic() > deadline
                assert not ended, (self._folder / "log").read_text()[-4000:]
                time.sleep(0.1)

    def kill(self) -> None:
        """Kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Broker:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
