"""A network with nothing in it but loopback, for as long as a test runs: what an agent's program calls home cannot go out.

The thread that enters it takes along every thread and process it starts there. Only root on Linux may do so; elsewhere the
programs are started with proxies that lead nowhere, which is as good as their honesty (see terminal.py).
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager

CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS = 0x8914
IFF_UP_AND_RUNNING = 0x1 | 0x40


@contextmanager
def only_loopback() -> Iterator[bool]:
    """Whether it could be had."""
    if not sys.platform.startswith("linux"):
        yield False
        return
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.unshare(CLONE_NEWNET) != 0:
            yield False
            return
        try:
            with socket.socket() as any_socket:
                fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh", b"lo", IFF_UP_AND_RUNNING) + bytes(16))
            yield True
        finally:
            if libc.setns(before, CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "there is no way back into the network of before")
    finally:
        os.close(before)
