"""Shared by the tests of the Python package: the package's path, and an agent that sends what a test tells it to."""
import importlib
import json
import os
import signal
import socket
import struct
import sys
import threading

sys.dont_write_bytecode = True
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "python"))

NODE = {"host": "here", "address": "127.0.0.1", "first_rank": 0, "workers": 2}


def assignment(number, rank=0, world_size=2, **more):
    return {"type": "assignment", "generation": f"{number}.{number:x}", "rank": rank, "local_rank": rank,
            "world_size": world_size, "local_world_size": 2, "node_rank": 0, "peers": [NODE], **more}


def lease_page(case, *leases, outside=(0, 0)):
    """Returns the descriptor of a page like those of base/lease_page.cc: pairs of a generation's id and its lease's end;
    `outside`: the end for workers that have left that generation."""
    fd = os.memfd_create("lease")
    case.addCleanup(os.close, fd)
    os.ftruncate(fd, 4096)
    leases = [*leases, *[(0, 0)] * (8 - len(leases)), outside]
    os.pwrite(fd, struct.pack("<QQQ", 0x657361656C746D00, 2, 0) + b"".join(struct.pack("<Qq", *l) for l in leases), 0)
    return fd


class CalledByPickle:
    """Counts, in `calls`, how often a pickle of it was executed."""
    calls = 0

    def __reduce__(self):
        return CalledByPickle.call, ()

    @staticmethod
    def call():
        CalledByPickle.calls += 1


def restore_signals(case):
    """Restores, after the case, the handlers of the signals that a Job catches."""
    for number in importlib.import_module("mtrun.job").CAUGHT:
        case.addCleanup(signal.signal, number, signal.getsignal(number))


def renew_lease(fd, ends):
    """Renews the lease of the page's first generation."""
    os.pwrite(fd, struct.pack("<q", ends), 32)


class Agent:
    """Listens for one worker, like mtrun's agent. `heard()` waits for its next message."""
    _names = 0

    def __init__(self):
        Agent._names += 1
        self.path = f"@mtrun-python-test-{os.getpid()}-{Agent._names}"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind("\0" + self.path[1:])
        self._listener.listen()
        self._worker = self._lines = None

    def environment(self, **more):
        return {"MTRUN_SOCKET": self.path, "RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "1", **more}

    def accept(self, timeout=20):
        self._worker = self._listener.accept()[0]
        self._worker.settimeout(timeout)
        if not self._worker.recv(1, socket.MSG_PEEK):  # a look at the owner of the socket
            self._worker.close()
            return self.accept(timeout)
        self._lines = self._worker.makefile("rb")

    def heard(self):
        line = self._lines.readline()
        return json.loads(line) if line else None

    def say(self, *messages):
        self.write("".join(json.dumps(message) + "\n" for message in messages).encode())

    def write(self, data):
        self._worker.sendall(data)

    def hang_up(self):
        if self._worker:
            self._lines.close()
            self._worker.close()
            self._worker = None

    def close(self):
        self.hang_up()
        self._listener.close()


def in_thread(call):
    """Runs `call` in a thread; `.result()` waits for its result or exception."""
    class Running(threading.Thread):
        value = error = None

        def run(self):
            try:
                self.value = call()
            except BaseException as error:  # the test's thread raises it
                self.error = error

        def result(self):
            self.join(20)
            if self.is_alive():
                raise TimeoutError("still running")
            if self.error:
                raise self.error
            return self.value

    thread = Running(daemon=True)
    thread.start()
    return thread
