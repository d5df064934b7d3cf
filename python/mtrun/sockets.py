"""The TCP connections of a process group: neither PyTorch nor Gloo says which they are, and Gloo has no other way to end a
wait for a peer that is silent."""
import contextlib
import os
import socket
import stat

TCP_FAMILIES = (socket.AF_INET, socket.AF_INET6)


def connections():
    """{(descriptor, inode)} of this process's TCP sockets, without those that listen: who accepts would try again for ever."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # closed meanwhile
            status = os.fstat(int(name))
            if stat.S_ISSOCK(status.st_mode):
                with duplicate(int(name)) as each:
                    if (each.family in TCP_FAMILIES and each.type == socket.SOCK_STREAM
                            and not each.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)):
                        found.add((int(name), status.st_ino))
    return found


def duplicate(descriptor):
    """The socket of a descriptor, as one that may be closed."""
    return socket.socket(fileno=os.dup(descriptor))


class NewConnections:
    """Those that are made from here on until `complete`."""

    def __init__(self):
        self._before, self._made = connections(), None

    def complete(self):
        self._made = connections() - self._before

    def shut_down(self):
        """Ends every wait on them. Any thread. Reads end and writes still succeed: Gloo (of PyTorch 2.11) queues a send whose
        write fails with EPIPE and never wakes the sum that waits for it, while the end of the reads fails all sums."""
        made = connections() - self._before if self._made is None else self._made
        for descriptor, inode in made:
            with contextlib.suppress(OSError):
                with duplicate(descriptor) as each:
                    if os.fstat(each.fileno()).st_ino == inode:  # not another one's that has the number now
                        each.shutdown(socket.SHUT_RD)
