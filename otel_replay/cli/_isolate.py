"""A network namespace without a network, for the program that `replay --isolate` is going to start (Linux)."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
from pathlib import Path

from otel_replay.errors import UsageError
from otel_replay.replay.guard import isolated

_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 0x1


def isolate() -> None:
    """Take the network away from this process and from all that it starts; the loopback stays, with nobody on it.

    As root in a namespace of the network alone, else in a user namespace with the same user and group. Raises
    UsageError where the system does not allow it: never a silent run with a network.
    """
    try:
        _unshare(_CLONE_NEWNET)
    except PermissionError:
        user, group = os.getuid(), os.getgid()
        try:
            _unshare(_CLONE_NEWUSER | _CLONE_NEWNET)
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
            Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
        except OSError as fault:
            raise _refused(fault) from None
    except (OSError, AttributeError) as fault:
        raise _refused(fault) from None
    if not isolated():
        raise _refused("the new namespace has a network")
    _loopback_up()


def _unshare(flags: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(flags):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH14s", b"lo", _IFF_UP, b""))
        except OSError:
            return  # a program that starts a server for itself will miss it; nothing else does


def _refused(reason: object) -> UsageError:
    return UsageError(
        f"--isolate cannot take the network away here: {reason}. It needs Linux, and root or user namespaces "
        "(sysctl kernel.unprivileged_userns_clone, or --cap-add SYS_ADMIN for a container). Nothing was run"
    )
