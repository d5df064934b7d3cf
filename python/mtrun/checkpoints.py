"""The checkpoints of a run in its folder: replica_N.pt holds the state after N steps; branch_G_replica_N.pt was one of another
branch of the run, whose last step generation G made, and is kept until a person deletes it. The newest is the one with most
steps."""
import contextlib
import errno
import fcntl
import os
import pickle
import re
import socket
import sys
import time
import zipfile
from typing import NamedTuple, Optional

import torch

from mtrun.position import Lineage, Position
from mtrun.retention import sort_out

ABORTED_SECONDS = 600  # nobody has written to it for so long: its writer was killed
OF_THE_FILE = (None, errno.EINVAL, errno.EISDIR)  # of an error: the disk has let it be read
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # what a file system without them says


class Unfit(Exception):
    """A whole state that is not this program's. Not one of RuntimeError: those may be of collectives."""

    def __init__(self, error):
        super().__init__(f"no {error}" if isinstance(error, KeyError) else " ".join(str(error).split()))


class Damaged(Exception):
    """A file that cannot be read."""


class Found(NamedTuple):
    """A checkpoint file."""
    identity: tuple
    position: Optional[Position] = None  # None: it cannot be read
    run: str = ""
    saved_in: int = 0  # the generation
    fits: bool = True  # False: whole, and has objects that torch.load does not take with weights_only


def lineage_of(state):
    """Checkpoints of earlier releases say only in which generation they were saved."""
    return Lineage(state.get("lineage") or [(state["generation"], 0)])


def found_in(state, identity):
    return Found(identity, lineage_of(state).position(state["sampler"]["step"]), state["run"], state["generation"])


class Checkpoints:
    def __init__(self, folder):
        self._folder = folder
        self._found = {}  # by step, what was last seen there
        self.refused = None  # why the disk let none be read: one may be whole, and who began again would move it away

    def path(self, step):
        return os.path.join(self._folder, f"replica_{step}.pt")

    # ---- what there is
    def furthest(self, run=None):
        """The Found of the highest position that can be read; None without one."""
        return max((found for found in self._readable(run).values()), key=lambda found: found.position, default=None)

    def has(self, run, position):
        return any(found.position == position for found in self._readable(run).values())

    def highest_generation(self):
        """That any file names, those of other branches too; 0 without one."""
        branches = [int(match[1]) for name in self._names() if (match := re.match(r"branch_(\d+)_replica_", name))]
        return max([found.saved_in for found in self._readable().values()] + branches, default=0)

    def _readable(self, run=None):
        """{step: Found}"""
        return {step: found for step, found in self._look().items() if found.position and run in (None, found.run)}

    def _positions(self, run):
        """{step: Position}"""
        return {step: found.position for step, found in self._readable(run).items()}

    def _look(self):
        """{step: Found} of what is there now. Only files that are new are read, without their tensors."""
        seen = {}
        for step in self._steps():
            with contextlib.suppress(FileNotFoundError):  # whoever writes has removed it meanwhile
                identity = self._identity(step)
                if step not in self._found or self._found[step].identity != identity:
                    self._found[step] = self._peek(step, identity)
                seen[step] = self._found[step]
        return seen

    def _peek(self, step, identity):
        try:
            state = self._read(step, mmap=zipfile.is_zipfile(self.path(step)))
        except Unfit:
            return Found(identity, fits=False)
        except Damaged:
            return Found(identity)
        try:
            return found_in(state, identity)
        except Exception:  # another program's file
            return Found(identity, fits=False)

    def _steps(self):
        return sorted(int(name[8:-3]) for name in self._names()
                      if name.startswith("replica_") and name.endswith(".pt") and name[8:-3].isdigit())

    def _names(self):
        try:
            return os.listdir(self._folder)
        except FileNotFoundError:
            return []

    # ---- reading
    def load_newest(self, restore, run=None, above=None):
        """restore(state) with the furthest that can be read, of `run` and above this position if given; restore raises Unfit
        if the state is another program's. Whether there is one. ValueError: it is unfit."""
        while (step := self._next_to_load(run, above)) is not None:
            try:
                identity = self._identity(step)
                restore(self._read(step))
                self.refused = None
                return True
            except FileNotFoundError:
                continue
            except Damaged:
                self._found[step] = Found(identity)
            except Unfit as error:
                raise ValueError(f"{self.path(step)} is a checkpoint of another model or program ({error}): take another folder, "
                                 "or move it away") from error
        return False

    def _next_to_load(self, run, above):
        files = self._look()
        positions = {step: found.position for step, found in files.items()
                     if found.position and run in (None, found.run) and (above is None or found.position > above)}
        furthest = max(positions, key=positions.get, default=-1)
        # With more steps than all others it may be the newest.
        unfit = max((step for step, found in files.items() if not found.fits), default=-1) if above is None else -1
        step = max(furthest, unfit)
        return step if step >= 0 else None

    def say_that_none_is_left(self):
        """The run begins again."""
        if any(found.position is None for found in self._found.values()):
            print(f"mtrun: no checkpoint in {self._folder} can be read: the run begins again, and they stay as *.unreadable",
                  file=sys.stderr)

    # ---- writing
    def save(self, state, confirm, alone=False):
        """Whole or not at all: written beside, synced, renamed once `confirm` returns. The newest KEPT stay; older ones of another
        branch of the run are moved aside. `alone`: outside of a generation."""
        lineage, step = lineage_of(state), state["sampler"]["step"]
        os.makedirs(self._folder, exist_ok=True)
        self._remove_aborted()
        partial = f"{self.path(step)}.{socket.gethostname()}.{os.getpid()}.partial"
        with open(partial, "wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        ours = self._positions(state["run"])
        removed, others = sort_out(ours, lineage, step, alone)
        damaged = [each for each, found in self._look().items() if found.position is None
                   and (each == step or not alone and (each > step or each < min(ours, default=step)))]
        confirm()
        for each in others:
            self._move_aside(each, f"the run saves {lineage.position(step)}")
        for each in damaged:
            self._set_apart(each)
        self._found[step] = found_in(state, self._identity_of(partial))
        os.replace(partial, self.path(step))
        for each in removed:
            self._remove(each)

    def _move_aside(self, step, why):
        found = self._found[step]
        name = f"branch_{found.position.generation}_replica_{step}"
        target, number = os.path.join(self._folder, f"{name}.pt"), 1
        while os.path.exists(target):  # another one's, which a person has brought back once
            number += 1
            target = os.path.join(self._folder, f"{name}.{number}.pt")
        if self._rename(step, target):
            print(f"mtrun: {self.path(step)} is of another branch of this run, {found.position}, and is kept as "
                  f"{os.path.basename(target)}: {why}", file=sys.stderr)

    def _set_apart(self, step):
        """One that cannot be read: somebody may still save something of it."""
        self._rename(step, f"{self.path(step)}.unreadable")

    def _rename(self, step, target):
        """False if another worker has done so, or has saved another one in its place."""
        with contextlib.suppress(FileNotFoundError):
            if self._identity(step) == self._found[step].identity:
                os.replace(self.path(step), target)
                return True
        return False

    def _remove(self, step):
        with contextlib.suppress(FileNotFoundError):
            if self._identity(step) == self._found[step].identity:
                os.remove(self.path(step))

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

    def _read(self, step, mmap=False):
        """The state. Damaged, after a word on why; Unfit. `mmap`: tensors stay on the disk."""
        path = self.path(step)
        try:
            return torch.load(path, weights_only=True, map_location="cpu", mmap=mmap)
        except FileNotFoundError:
            raise
        except Exception as error:  # torch.load raises anything for a damaged one
            if isinstance(error, pickle.UnpicklingError) and _is_whole(path):
                raise Unfit(error) from error  # objects in it are none that weights_only takes
            if isinstance(error, OSError) and error.errno not in OF_THE_FILE:
                self.refused = error
            print(f"mtrun: {path} cannot be read, the one before it is taken: {str(error) or type(error).__name__}",
                  file=sys.stderr)
            raise Damaged from error

    def _identity(self, step):
        return self._identity_of(self.path(step))

    @staticmethod
    def _identity_of(path):
        """Of the file that is there now; empty if it cannot be looked at: reading it says why."""
        try:
            status = os.stat(path)
        except FileNotFoundError:
            raise
        except OSError:
            return ()
        return status.st_ino, status.st_mtime_ns, status.st_size

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
