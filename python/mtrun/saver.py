"""Writes checkpoints on a thread while training continues."""
import os
import threading

from mtrun.checkpoints import Checkpoints
from mtrun.job import Interrupted
from mtrun.snapshot import Snapshot


class Saver:
    """Saves into one folder; at most one save is in flight. Training thread only. A save belongs to the generation in
    which it began: if that has ended before the file has its name, the save is given up, as if it had been made within
    a step."""

    def __init__(self, job, folder):
        self._job, self._checkpoints = job, Checkpoints(folder)
        self._snapshot, self._thread, self._error = Snapshot(), None, None
        job.before_close(self._join)  # a program that fails keeps the checkpoint that is being written

    def save(self, state, ledger, known):
        """Copies the state, starts to write it and returns. REQUIRES: finish(). `ledger`: a descriptor, owned by the
        save, that is flushed before; or None. `known`: the Checkpoints of the training thread."""
        state = self._snapshot.take(state)
        self._checkpoints.learn(known)
        self._thread = threading.Thread(target=self._save, args=(state, ledger, self._job.generation), name="mtrun-saves")
        self._thread.start()

    def idle(self):
        """Returns whether no save is in flight."""
        return self._thread is None or not self._thread.is_alive()

    def finish(self, known):
        """Waits for the save in flight. Returns False if it was given up; raises its error. `known`: as for save()."""
        self._join()
        error, self._error = self._error, None
        known.learn(self._checkpoints)
        if error and not isinstance(error, Interrupted):
            raise error
        return error is None

    def _join(self):
        if self._thread:
            self._thread.join()
            self._thread = None

    def _save(self, state, ledger, generation):
        try:
            self._job.hold()
            if ledger is not None:
                os.fsync(ledger)
            self._checkpoints.save(state, lambda: self._confirm(generation))
        except BaseException as error:  # finish() raises it
            self._error = error
        finally:
            if ledger is not None:
                os.close(ledger)

    def _confirm(self, generation):
        self._job.hold()
        if self._job.generation != generation:
            raise Interrupted("the generation in which the save began has ended")
