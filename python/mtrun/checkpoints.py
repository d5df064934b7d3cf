"""The checkpoints of a run in its folder: replica_N.pt holds the state after N steps."""
import contextlib
import errno
import fcntl
import os
import pickle
import socket
import sys
import time
import zipfile

import torch

KEPT = 2
ABORTED_SECONDS = 600  # nobody has written to it for so long: its writer was killed
OF_THE_FILE = (None, errno.EINVAL, errno.EISDIR)  # of an error: the disk has let it be read
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # what a file system without them says


class Unfit(Exception):
    """A whole state that is not this program's. Not one of RuntimeError: those may be of collectives."""

    def __init__(self, error):
        super().__init__(f"no {error}" if isinstance(error, KeyError) else " ".join(str(error).split()))


class Checkpoints:
    def __init__(self, folder):
        self._folder = folder
        self._unreadable = {}  # by step, which file that was
        self.refused = None  # why the disk let none be read: one may be whole, and who began again would move it away

    def path(self, step):
        return os.path.join(self._folder, f"replica_{step}.pt")

    def readable(self):
        """Their steps, in ascending order; without those that were found damaged."""
        return [step for step in self._steps() if not self._is_damaged(step)]

    def _steps(self):
        try:
            names = os.listdir(self._folder)
        except FileNotFoundError:
            return []
        return sorted(int(name[8:-3]) for name in names
                      if name.startswith("replica_") and name.endswith(".pt") and name[8:-3].isdigit())

    def load_newest(self, restore):
        """restore(state) with the newest that can be read, which raises Unfit where it is another program's; whether there is
        one. ValueError: it is unfit."""
        self.refused = None
        for step in reversed(self._steps()):
            try:
                state = self._load(step)
                if state is None:
                    continue
                restore(state)
                self.refused = None
                return True
            except Unfit as error:
                raise ValueError(f"{self.path(step)} is a checkpoint of another model or program ({error}): take another folder, "
                                 "or move it away") from error
        return False

    def say_that_none_is_left(self):
        """The run begins again."""
        if self._unreadable:
            print(f"mtrun: no checkpoint in {self._folder} can be read: the run begins again, and they stay as *.unreadable",
                  file=sys.stderr)

    def save(self, step, state, confirm, supersedes):
        """Whole or not at all: written beside, synced, renamed once `confirm` returns; the last two stay. `supersedes`: what
        lies further on goes, since an earlier generation has left it and this one has continued from before it."""
        os.makedirs(self._folder, exist_ok=True)
        self._remove_aborted()
        partial = f"{self.path(step)}.{socket.gethostname()}.{os.getpid()}.partial"
        with open(partial, "wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        confirm()
        if self._is_damaged(step):
            self._remove(step)
        os.replace(partial, self.path(step))
        steps = self._steps()
        superseded = [other for other in steps if other > step] if supersedes else []
        for other in superseded + [other for other in steps if other not in superseded][:-KEPT]:
            self._remove(other)

    @contextlib.contextmanager
    def alone(self):
        """While nobody else is in the folder, as far as its file system has locks."""
        os.makedirs(self._folder, exist_ok=True)
        # Over NFS the lock of a folder would hold on one machine alone.
        path = os.path.join(self._folder, ".lock")
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            _await_turn(lock, path)
            yield
        finally:
            os.close(lock)

    def _load(self, step):
        """None, and a word on why, where it is damaged: torch.load raises anything then."""
        path, read = self.path(step), self._identity(step)
        try:
            return torch.load(path, weights_only=True, map_location="cpu")
        except FileNotFoundError:
            return None  # whoever writes has removed it meanwhile
        except Exception as error:
            if isinstance(error, pickle.UnpicklingError) and _is_whole(path):
                raise Unfit(error) from error  # objects in it are none that weights_only takes
            if isinstance(error, OSError) and error.errno not in OF_THE_FILE:
                self.refused = error
            print(f"mtrun: {path} cannot be read, the one before it is taken: {str(error) or type(error).__name__}", file=sys.stderr)
            self._unreadable[step] = read
            return None

    def _identity(self, step):
        """Of the file that is there now; None where there is none."""
        try:
            status = os.stat(self.path(step))
        except OSError:  # also where it cannot be looked at: reading it says why
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size

    def _is_damaged(self, step):
        """Another worker may have saved a whole one in its place since."""
        return step in self._unreadable and self._unreadable[step] == self._identity(step)

    def _remove(self, step):
        """Of one that could not be read somebody may still save something. Others may remove it at the same time."""
        with contextlib.suppress(FileNotFoundError):
            if self._is_damaged(step):
                os.replace(self.path(step), f"{self.path(step)}.unreadable")
            else:
                os.remove(self.path(step))

    def _remove_aborted(self):
        for name in os.listdir(self._folder):
            path = os.path.join(self._folder, name)
            if name.startswith("replica_") and name.endswith(".partial"):
                with contextlib.suppress(FileNotFoundError):
                    if time.time() - os.stat(path).st_mtime > ABORTED_SECONDS:
                        os.remove(path)


def _await_turn(lock, path):
    """Two that save at the same time do less harm than a state that nobody saves."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        print(f"mtrun: the last state is saved without a lock: lock {path}: {os.strerror(error.errno)}", file=sys.stderr)


def _is_whole(path):
    """Every byte is the one that was saved."""
    try:
        with zipfile.ZipFile(path) as file:
            return file.testzip() is None
    except Exception:  # of one that is damaged: of many kinds
        return False
