"""Waits for collectives that Gloo may never end. Gloo (of PyTorch 2.11) loses a send that it had to queue when its
connection breaks; the sum then waits until its group's timeout. So this process stops waiting for a collective that
outlives its generation, and keeps its group, whose clean-up would wait for it."""
from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from mtrun.job import Interrupted, Job

SLICE_SECONDS = 0.25    # between two checks whether the generation is over
LOOK_SECONDS = 0.001    # between two checks whether a collective has ended
ABANDON_SECONDS = 1.0   # time within which an abort ends a collective

_abandoned = False      # a wait in the current group was abandoned
_begun: set[dist.Work] = set()          # collectives of the current group that were begun and not waited for


def note_begun(work: dist.Work) -> None:
    """Records a Gloo collective for which `await_work` has yet to be called."""
    _begun.add(work)


def await_work(job: Job, work: dist.Work) -> None:
    """Calls a Gloo work.wait(). Raises its errors; Interrupted if it outlives its generation."""
    deadline = _Deadline(job)
    _begun.discard(work)
    while True:
        try:
            work.wait(timedelta(seconds=SLICE_SECONDS))
            return
        except RuntimeError:
            if work.is_completed():  # its own error, or it has ended just after the slice
                work.wait()
                return
        deadline.check()


def await_call(job: Job, call: Callable[[], Any]) -> Any:
    """Returns the result of call(), which blocks in a collective. Raises Interrupted if it outlives its generation."""
    calling, deadline = _Calling(call), _Deadline(job)
    calling.start()
    while calling.is_alive():
        calling.join(SLICE_SECONDS)
        if calling.is_alive():
            deadline.check()
    if calling.error:
        raise calling.error
    return calling.result


def release(groups: list[Any]) -> None:
    """Releases aborted groups before they are destroyed; keeps them for ever if a collective in one does not end."""
    global _abandoned
    until = time.monotonic() + ABANDON_SECONDS
    while not _abandoned and not all(work.is_completed() for work in _begun):
        _abandoned = time.monotonic() >= until
        time.sleep(LOOK_SECONDS)
    _begun.clear()
    if _abandoned:
        for group in groups:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(group))
        _abandoned = False


class _Deadline:
    def __init__(self, job: Job) -> None:
        self._job = job
        self._over: float | None = None  # when this worker first saw the end

    def check(self) -> None:
        """Raises Interrupted some time after the end of the generation."""
        global _abandoned
        now = time.monotonic()
        if not self._job.over():
            self._over = None
        elif self._over is None:
            self._over = now
        elif now - self._over >= ABANDON_SECONDS:
            _abandoned = True
            raise Interrupted("a collective did not end with its generation")


class _Calling(threading.Thread):
    def __init__(self, call: Callable[[], Any]) -> None:
        super().__init__(name="mtrun-collective", daemon=True)
        self._call, self.result = call, None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.result = self._call()
        except BaseException as error:  # the waiting thread raises it
            self.error = error


def is_gloo(device: str) -> bool:
    return isinstance(dist.distributed_c10d._get_default_group()._get_backend(device), dist.ProcessGroupGloo)
