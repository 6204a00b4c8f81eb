"""A replay makes no real call (RP-13), and its guard follows the context (RP-14). The canary counts what reached it."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import os
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from otel_replay import ReplayPlan, boundary, record, replay
from otel_replay.errors import Diverged, LiveCallBlocked, ScopeClosed
from otel_replay.replay.guard import interception

from .conftest import Lab


class Canary:
    """A server that counts who came: nobody may."""

    def __init__(self) -> None:
        self.came = 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/v1/chat"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                peer, _address = self._socket.accept()
            except OSError:
                return
            self.came += 1
            with peer:
                peer.recv(65536)
                peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def canary() -> Iterator[Canary]:
    server = Canary()
    yield server
    server.close()


@boundary("tool", kind="tool")
def tool(x: int) -> int:
    return x + 1


def raw(canary: Canary) -> object:
    with socket.create_connection(("127.0.0.1", canary.port), timeout=5) as peer:
        peer.sendall(b"GET / HTTP/1.1\r\n\r\n")
        return peer.recv(100)


def connect_ex(canary: Canary) -> object:
    with socket.socket() as peer:
        return peer.connect_ex(("127.0.0.1", canary.port))


def by_urllib(canary: Canary) -> object:
    with urllib.request.urlopen(canary.url, timeout=5) as answer:
        return answer.read()


def by_curl(canary: Canary) -> object:
    return subprocess.run(["curl", "-s", canary.url], check=False, capture_output=True).stdout


def by_python(canary: Canary) -> object:
    code = f"import urllib.request; print(urllib.request.urlopen({canary.url!r}).read())"
    return subprocess.check_output([sys.executable, "-c", code])


def by_system(canary: Canary) -> object:
    return os.system(f"curl -s {canary.url} >/dev/null")


def by_spawn(canary: Canary) -> object:
    return os.waitpid(os.posix_spawn(sys.executable, [sys.executable, "-c", "pass"], os.environ), 0)


def in_thread(canary: Canary) -> object:
    found: list[object] = []

    def work() -> None:
        try:
            found.append(raw(canary))
        except BaseException as fault:
            found.append(fault)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if isinstance(found[0], BaseException):
        raise found[0]
    return found[0]


def by_asyncio(canary: Canary) -> object:
    async def ask() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", canary.port)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        answer = await reader.read(100)
        writer.close()
        return answer

    return asyncio.run(ask())


def by_udp(canary: Canary) -> object:
    with socket.socket(type=socket.SOCK_DGRAM) as peer:
        return peer.sendto(b"x", ("127.0.0.1", canary.port))


NETWORK = [raw, connect_ex, by_urllib, in_thread, by_asyncio, by_udp]
PROGRAMS = [by_curl, by_python, by_system, by_spawn]


@pytest.mark.parametrize("call", [*NETWORK, *PROGRAMS])
def test_RP_13_a_replay_makes_no_real_call(lab: Lab, canary: Canary, call: Callable[[Canary], object]) -> None:
    def agent() -> int:
        call(canary)
        return tool(1)

    lab.record(lambda: tool(1))
    named = f"127.0.0.1:{canary.port}" if call in NETWORK else "begin the program"
    with pytest.raises(LiveCallBlocked, match=named), lab.session() as session:
        agent()
    assert canary.came == 0
    assert "outside any crossing" in session.report.error
    assert session.report.verdict == "diverged"
    assert session.report.exit_code() == 3


@pytest.mark.parametrize("call", [*NETWORK, *PROGRAMS])
def test_RP_13_a_refusal_that_the_agent_swallows_is_reported(
    lab: Lab, canary: Canary, call: Callable[[Canary], object]
) -> None:
    lab.record(lambda: tool(1))

    def agent() -> None:
        with contextlib.suppress(Exception):
            call(canary)
        with pytest.raises(LiveCallBlocked):
            tool(1)

    with pytest.raises(LiveCallBlocked), lab.session():
        agent()
    assert canary.came == 0


@pytest.mark.parametrize("call", [raw, by_urllib, in_thread, by_asyncio])
def test_what_the_plan_runs_live_may_use_the_network(
    lab: Lab, canary: Canary, call: Callable[[Canary], object]
) -> None:
    fetch = boundary("fetch", kind="tool")(lambda: bool(call(canary)))
    lab.record(fetch)
    assert canary.came == 1
    assert lab.replay(fetch)[0] is True
    assert canary.came == 1
    assert lab.replay(fetch, ReplayPlan().live("fetch"))[0] is True
    assert canary.came == 2


def test_a_live_crossing_may_begin_a_program(lab: Lab) -> None:
    shell = boundary("shell", kind="tool")(lambda: subprocess.check_output(["echo", "hi"]))
    lab.record(shell)
    assert lab.replay(shell, ReplayPlan().live("shell"))[0] == b"hi\n"


def test_a_body_that_is_only_opened_may_not_call(lab: Lab, canary: Canary) -> None:
    inner = boundary("inner")(lambda: 1)
    outer = boundary("outer")(lambda: (raw(canary), inner())[1])
    lab.record(outer)
    assert canary.came == 1
    with pytest.raises(LiveCallBlocked, match=r"inside outer\[1\].*--live \"outer\[1\]\""):
        with lab.session(ReplayPlan().live("inner")):
            outer()
    assert canary.came == 1


def test_a_connection_that_was_opened_before_is_refused_too(lab: Lab, canary: Canary) -> None:
    lab.record(lambda: tool(1))
    connection = http.client.HTTPConnection("127.0.0.1", canary.port)
    connection.connect()
    with pytest.raises(LiveCallBlocked, match="HTTP request to 127.0.0.1"), lab.session():
        connection.request("GET", "/")
    connection.close()


def test_a_name_is_not_looked_up(lab: Lab) -> None:
    lab.record(lambda: tool(1))
    with pytest.raises(LiveCallBlocked, match="look up api.example.com:443"), lab.session():
        socket.getaddrinfo("api.example.com", 443)


def test_event_loops_servers_and_questions_to_this_machine_go_on(lab: Lab) -> None:
    import email.utils
    import platform
    import uuid

    async def serve() -> int:
        server = await asyncio.start_server(lambda _r, _w: None, "localhost", 0)
        server.close()
        return await asyncio.to_thread(tool, 1)

    def agent() -> int:
        platform.uname()
        platform.processor()
        email.utils.make_msgid()
        uuid.uuid1()
        return asyncio.run(serve())

    lab.record(agent)
    assert lab.replay(agent)[1].report.verdict == "passed"


# RP-14 --------------------------------------------------------------------------------------------------------
def test_RP_14_scopes_follow_the_context_in_one_event_loop(lab: Lab) -> None:
    lab.record(lambda: [tool(1), tool(2)], "first")
    lab.record(lambda: [tool(10), tool(20)], "second")
    seen: dict[str, list[int]] = {}

    async def one(name: str, first: int, second: int) -> None:
        with replay(name, store=lab.store):
            seen[name] = [tool(first)]
            await asyncio.sleep(0.01)
            seen[name].append(tool(second))
            await asyncio.sleep(0.01)

    async def both() -> None:
        await asyncio.gather(one("first", 1, 2), one("second", 10, 20))

    asyncio.run(both())
    assert seen == {"first": [2, 3], "second": [11, 21]}


def test_RP_14_scopes_follow_the_context_in_two_threads(lab: Lab, canary: Canary) -> None:
    lab.record(lambda: tool(1), "first")
    lab.record(lambda: tool(10), "second")
    barrier = threading.Barrier(2)
    seen: dict[str, object] = {}

    def one(name: str, value: int, calls_out: bool) -> None:
        try:
            with replay(name, store=lab.store):
                barrier.wait(5)
                if calls_out:
                    raw(canary)
                seen[name] = tool(value)
                barrier.wait(5)
        except BaseException as fault:
            seen[name] = fault
            barrier.abort()

    threads = [threading.Thread(target=one, args=a) for a in (("first", 1, False), ("second", 10, False))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {"first": 2, "second": 11}


def test_RP_14_a_recording_beside_a_replay_may_call(lab: Lab, canary: Canary) -> None:
    lab.record(lambda: tool(1), "old")
    inside, done = threading.Event(), threading.Event()
    seen: list[object] = []

    def recording() -> None:
        with record("fresh", store=lab.store):
            inside.wait(5)
            seen.append(raw(canary))
            done.set()

    thread = threading.Thread(target=recording)
    thread.start()
    with lab.session(name="old"):
        inside.set()
        assert done.wait(5)
        assert tool(1) == 2
    thread.join()
    assert canary.came == 1
    assert bytes(seen[0]).startswith(b"HTTP/1.1 200")  # type: ignore[call-overload]


@pytest.mark.parametrize("late", [lambda _canary: tool(1), raw, by_system])
def test_RP_14_a_thread_that_outlives_its_replay_is_refused(
    lab: Lab, canary: Canary, late: Callable[[Canary], object]
) -> None:
    lab.record(lambda: tool(1))
    go = threading.Event()
    seen: list[Any] = []

    def work() -> None:
        go.wait(5)
        try:
            seen.append(late(canary))
        except BaseException as fault:
            seen.append(fault)

    with lab.session():
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        tool(1)
    go.set()
    thread.join()
    assert isinstance(seen[0], ScopeClosed)
    assert "'run' had ended" in str(seen[0])
    assert canary.came == 0


def test_after_a_replay_everything_may_call_again(lab: Lab, canary: Canary) -> None:
    lab.record(lambda: tool(1))
    lab.replay(lambda: tool(1))
    raw(canary)
    assert canary.came == 1


# What could not be seen ---------------------------------------------------------------------------------------
def test_the_report_names_what_connects_unseen(lab: Lab) -> None:
    assert interception({"json": 1}, without_network=False) == "fully intercepted"
    unseen = interception({"uvloop": 1, "grpc": 1, "json": 1}, without_network=False)
    assert unseen == "intercepted; not observable: grpc, uvloop"
    assert interception({"uvloop": 1}, without_network=True) == "fully intercepted"
    lab.record(lambda: tool(1))
    first = lab.replay(lambda: tool(1))[1].report
    assert first.interception.startswith(("fully intercepted", "intercepted; not observable: "))
    second = lab.replay(lambda: tool(1))[1].report
    assert first.text() == second.text()
    assert first.json() == second.json()
    assert f"network: {first.interception}" in first.text()


def test_a_divergence_before_stays_the_fault(lab: Lab, canary: Canary) -> None:
    lab.record(lambda: tool(1))

    def agent() -> None:
        with pytest.raises(Diverged):
            tool(2)
        with pytest.raises(LiveCallBlocked):
            raw(canary)

    with pytest.raises(Diverged), lab.session():
        agent()
    assert canary.came == 0
