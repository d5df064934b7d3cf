"""The store through which a generation's process group connects. A wait for a member that will not come is interrupted
when the generation ends, not after torch.distributed's minutes."""
from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from datetime import timedelta

import torch.distributed as dist

from mtrun.assignment import Assignment
from mtrun.job import Interrupted, Job
from mtrun.sockets import connections, duplicate

CONNECT_TIMEOUT = timedelta(seconds=600)
STORE_KEY = "mtrun/torch_store"
TRY_SECONDS = 1.0             # per attempt to reach rank 0's store
LOST_SECONDS = 2.0            # to wait for the agent's explanation of a lost store
LOOK_SECONDS = (0.001, 0.05)  # between two polls for a key: at first, and at most


class GenerationStore(dist.Store):
    """Wraps `store`; its waits raise Interrupted if the generation ends."""

    def __init__(self, job: Job, store: dist.Store) -> None:
        super().__init__()
        self._job, self._store = job, store

    def wait(self, keys: list[str], timeout: timedelta = CONNECT_TIMEOUT) -> None:
        deadline, pause = time.monotonic() + timeout.total_seconds(), LOOK_SECONDS[0]
        while not self._checked(keys):
            if self._job.wait_until_over(pause):
                raise Interrupted(f"the generation ended before {', '.join(keys)} arrived")
            if time.monotonic() >= deadline:
                raise dist.DistStoreError(f"no {', '.join(keys)} within {timeout}")
            pause = min(2 * pause, LOOK_SECONDS[1])

    def _checked(self, keys: list[str]) -> bool:
        try:
            return self._store.check(keys)
        except RuntimeError:  # its connection was cut, or rank 0 is lost and the agent will report that soon
            if self._job.wait_until_over(LOST_SECONDS):
                return False
            raise

    def get(self, key: str) -> bytes:
        self.wait([key])
        return self._store.get(key)

    def set(self, key: str, value: bytes) -> None:
        self._store.set(key, value)

    def add(self, key: str, amount: int) -> int:
        return self._store.add(key, amount)

    def check(self, keys: list[str]) -> bool:
        return self._store.check(keys)

    def compare_set(self, key: str, expected: bytes, desired: bytes) -> bytes:
        return self._store.compare_set(key, expected, desired)

    def delete_key(self, key: str) -> bool:
        return self._store.delete_key(key)

    def num_keys(self) -> int:
        return self._store.num_keys()

    # The names by which C++ calls them, for example from a store that wraps this one.
    deleteKey, getNumKeys = delete_key, num_keys


def meet(job: Job, abort: Callable[[], object]) -> GenerationStore:
    """Returns a store of the entered generation in rank 0's process, whose port is published in the job's own key-value
    space. When the generation ends, this process's connections to it are cut and `abort` is called."""
    given = job.assignment
    if given.rank == 0:
        store = _listen(job, given)
        job.store.set(STORE_KEY, str(store.port).encode())
        job.on_break(lambda why: _cut("127.0.0.1", store.port, abort))
    else:
        port = int(job.store.wait(STORE_KEY)[0])
        job.on_break(lambda why: _cut(given.master_addr, port, abort))
        store = _reach(job, given.master_addr, port)
    return GenerationStore(job, store)


def _cut(address: str, port: int, abort: Callable[[], object]) -> None:
    """Cuts connections, because a wait for a silent store does not even respect its timeout."""
    try:
        addresses = {info[4][0] for info in socket.getaddrinfo(address, port)}
    except OSError:
        addresses = {address}
    for descriptor, _ in connections():
        with contextlib.suppress(OSError), duplicate(descriptor) as connection:
            peer = connection.getpeername()
            if peer[1] == port and peer[0].removeprefix("::ffff:") in addresses:
                connection.shutdown(socket.SHUT_RDWR)
    abort()


def _listen(job: Job, given: Assignment) -> dist.TCPStore:
    low, _, high = job.port_range.partition("-")
    error = None
    for port in range(int(low), int(high) + 1) if high else (0,):
        try:
            return dist.TCPStore("127.0.0.1", port, None, True, timeout=CONNECT_TIMEOUT, wait_for_workers=False)
        except RuntimeError as failure:
            error = failure
    raise RuntimeError(f"no port of MTRUN_PORT_RANGE={job.port_range} is free for generation {given.number}") from error


def _reach(job: Job, address: str, port: int) -> dist.Store:
    """Returns the store of rank 0 once it answers. TCPStore retries for minutes and waits for an answer for ever, so it
    does that on a thread, which is abandoned if the generation ends."""
    while True:
        try:
            socket.create_connection((address, port), TRY_SECONDS).close()  # TCPStore logs much if nothing is listening
            break
        except OSError as error:
            if job.wait_until_over(LOOK_SECONDS[1]):
                raise Interrupted(f"the generation ended before rank 0's store was reached: {error}") from error
    connecting = _Connecting(address, port)
    connecting.start()
    while connecting.is_alive():
        if job.wait_until_over(0):
            raise Interrupted("the generation ended before rank 0's store answered")
        connecting.join(LOOK_SECONDS[1])
    if connecting.error:
        raise connecting.error
    return connecting.store


class _Connecting(threading.Thread):
    def __init__(self, address: str, port: int) -> None:
        super().__init__(name="mtrun-connects", daemon=True)
        self._where, self.store = (address, port), None
        self.error: RuntimeError | None = None

    def run(self) -> None:
        try:
            self.store = dist.TCPStore(*self._where, None, False, timeout=CONNECT_TIMEOUT)
        except RuntimeError as error:
            self.error = error
