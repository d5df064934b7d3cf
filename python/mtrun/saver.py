"""Writes checkpoints on a thread while training continues."""
from __future__ import annotations

import os
import threading
from typing import Any

from mtrun.checkpoints import Checkpoints
from mtrun.job import Interrupted, Job
from mtrun.snapshot import Snapshot


class Saver:
    """Saves into one folder; at most one save is in flight. Training thread only. A save belongs to the generation in
    which it began: if that has ended before the file has its name, the save is given up, as if it had been made within
    a step. `known`: the Checkpoints of the training thread."""

    def __init__(self, job: Job, folder: str, known: Checkpoints) -> None:
        self._job, self._known, self._checkpoints = job, known, Checkpoints(folder)
        self._snapshot = Snapshot()
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        job.before_close(self._join)  # a program that fails keeps the checkpoint that is being written

    def save(self, state: dict[str, Any], ledger: int | None) -> None:
        """Copies the state, starts to write it and returns. REQUIRES: finish(). `ledger`: a descriptor, owned by the
        save, that is flushed before; or None."""
        state = self._snapshot.take(state)
        self._checkpoints.learn(self._known)
        self._thread = threading.Thread(target=self._save, args=(state, ledger, self._job.generation), name="mtrun-saves")
        self._thread.start()

    def idle(self) -> bool:
        """Returns whether no save is in flight."""
        return self._thread is None or not self._thread.is_alive()

    def finish(self) -> bool:
        """Waits for the save in flight. Returns False if it was given up; raises its error."""
        self._join()
        error, self._error = self._error, None
        self._known.learn(self._checkpoints)
        if error and not isinstance(error, Interrupted):
            raise error
        return error is None

    def _join(self) -> None:
        if self._thread:
            self._thread.join()
            self._thread = None

    def _save(self, state: dict[str, Any], ledger: int | None, generation: str) -> None:
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

    def _confirm(self, generation: str) -> None:
        self._job.hold()
        if self._job.generation != generation:
            raise Interrupted("the generation in which the save began has ended")
