"""Finds the TCP connections of a process group: neither PyTorch nor Gloo exposes them, and Gloo has no other way to end
a wait for a silent peer."""
from __future__ import annotations

import contextlib
import os
import socket
import stat

TCP_FAMILIES = (socket.AF_INET, socket.AF_INET6)


def connections() -> set[tuple[int, int]]:
    """Returns {(descriptor, inode)} of all but the listening TCP sockets, whose owner would retry for ever."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # closed in the meantime
            status = os.fstat(int(name))
            if stat.S_ISSOCK(status.st_mode):
                with duplicate(int(name)) as each:
                    if (each.family in TCP_FAMILIES and each.type == socket.SOCK_STREAM
                            and not each.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)):
                        found.add((int(name), status.st_ino))
    return found


def duplicate(descriptor: int) -> socket.socket:
    """Returns a socket on a duplicate of the descriptor, which can be closed."""
    return socket.socket(fileno=os.dup(descriptor))


class NewConnections:
    """The connections made from now on until `complete`."""

    def __init__(self) -> None:
        self._before = connections()
        self._made: set[tuple[int, int]] | None = None

    def complete(self) -> None:
        self._made = connections() - self._before

    def shut_down(self) -> None:
        """Ends every wait on them, from any thread. Shuts down only reads: Gloo (of PyTorch 2.11) queues a send whose
        write fails with EPIPE and never wakes the sum that waits for it, while the end of the reads fails all sums."""
        for descriptor, inode in self._all():
            with contextlib.suppress(OSError):
                with duplicate(descriptor) as each:
                    if os.fstat(each.fileno()).st_ino == inode:  # the number has not been reused for another socket
                        each.shutdown(socket.SHUT_RD)

    def close(self) -> None:
        """Closes this process's descriptors of them; for a forked child, whose copies no thread uses."""
        for descriptor, _ in self._all() & connections():
            os.close(descriptor)

    def _all(self) -> set[tuple[int, int]]:
        return connections() - self._before if self._made is None else self._made
