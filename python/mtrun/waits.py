"""Waits for collectives that Gloo may never end. Gloo (of PyTorch 2.11) loses sight of a send that it had to queue when its
connection breaks: the sum that waits for it does so for the timeout of its group, and nothing ends it before. So this
process stops waiting for a collective that outlives its generation, and keeps the group whose clean-up would wait for it."""
import ctypes
import threading
import time
from datetime import timedelta

import torch.distributed as dist

from mtrun.job import Interrupted

SLICE_SECONDS = 0.25    # between two looks whether the generation is over
ABANDON_SECONDS = 1.0   # a collective that an abort ends has ended by then

_abandoned = False      # something still waits in the group that there is


def await_work(job, work):
    """work.wait() of one of Gloo's. Raises what it raises; Interrupted if it outlives its generation."""
    deadline = _Deadline(job)
    while True:
        try:
            work.wait(timedelta(seconds=SLICE_SECONDS))
            return
        except RuntimeError:
            if work.is_completed():
                raise
        deadline.check()


def await_call(job, call):
    """The result of call(), which blocks in a collective. Raises what it raises; Interrupted if it outlives its generation."""
    calling, deadline = _Calling(call), _Deadline(job)
    calling.start()
    while calling.is_alive():
        calling.join(SLICE_SECONDS)
        if calling.is_alive():
            deadline.check()
    if calling.error:
        raise calling.error
    return calling.result


def release(group):
    """`group` is about to be destroyed: it is kept for ever if something still waits in it."""
    global _abandoned
    if _abandoned:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(group))
        _abandoned = False


class _Deadline:
    def __init__(self, job):
        self._job, self._over = job, None  # since when this worker knows

    def check(self):
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
    def __init__(self, call):
        super().__init__(name="mtrun-collective", daemon=True)
        self._call, self.result, self.error = call, None, None

    def run(self):
        try:
            self.result = self._call()
        except BaseException as error:  # the waiting thread raises it
            self.error = error


def is_gloo(device):
    return isinstance(dist.distributed_c10d._get_default_group()._get_backend(device), dist.ProcessGroupGloo)
