"""The checkpoints of a run in its folder: replica_N holds the state after N steps. branch_G_replica_N belongs to another
branch of the run, whose last step generation G made, and is kept until a person deletes it. The newest checkpoint has the
most steps. Earlier releases wrote files replica_N.pt, which are read."""
from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import socket
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from mtrun import checkpoint_folder, earlier_checkpoint
from mtrun.checkpoint_folder import Damaged, Unfit
from mtrun.files import put_in_place, remove, removed_after_error, sync_folder
from mtrun.position import Lineage, Position
from mtrun.retention import sort_out

NAME = re.compile(r"replica_([0-9]+)(\.pt)?")
NOWHERE = Position(-1, -1)
ABORTED_SECONDS = 600  # a folder not written for this long: its writer was killed
OF_THE_FILE = (None, errno.EINVAL, errno.EISDIR)  # errno of errors of the file itself, not of the disk
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # errors of a file system without locks
Identity = tuple[object, ...]


class Found(NamedTuple):
    """A checkpoint."""
    identity: Identity
    position: Position | None = None  # None: unreadable
    run: str = ""
    saved_in: int = 0  # generation
    fits: bool = True  # False: whole, but another program's


def lineage_of(state: dict[str, Any]) -> Lineage:
    """Returns the lineage. Checkpoints of earlier releases only contain the generation in which they were saved."""
    return Lineage(state.get("lineage") or [(state["generation"], 0)])


def found_in(state: dict[str, Any], identity: Identity) -> Found:
    return Found(identity, lineage_of(state).position(state["sampler"]["step"]), state["run"], state["generation"])


class Checkpoints:
    """The checkpoints in a folder, which other workers may change at any time. One thread."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._found: dict[int, Found] = {}  # by step, as last seen
        # Why the disk refused every read: one may be whole, and a fresh run would move it away.
        self.refused: OSError | None = None

    def path(self, step: int) -> str:
        """Returns the path of a checkpoint, also of one that does not exist yet."""
        path = os.path.join(self._folder, f"replica_{step}")
        earlier = f"{path}.pt"
        return earlier if os.path.lexists(earlier) and not os.path.lexists(path) else path

    def learn(self, other: Checkpoints) -> None:
        """Takes over what another object for the same folder, of another thread, has found."""
        self._found.update(other._found)

    # ---- contents
    def furthest(self, run: str | None = None) -> Found | None:
        """Returns the Found of the highest readable position; None if there is none."""
        return max((found for found in self._readable(run).values()), key=lambda found: found.position or NOWHERE, default=None)

    def has(self, run: str, position: Position) -> bool:
        return any(found.position == position for found in self._readable(run).values())

    def highest_generation(self) -> int:
        """Returns the highest generation of any file, other branches included; 0 if there is none."""
        branches = [int(match[1]) for name in self._names() if (match := re.match(r"branch_(\d+)_replica_", name))]
        return max([found.saved_in for found in self._readable().values()] + branches, default=0)

    def _readable(self, run: str | None = None) -> dict[int, Found]:
        """Returns {step: Found}."""
        return {step: found for step, found in self._look().items() if found.position and run in (None, found.run)}

    def _positions(self, run: str | None) -> dict[int, Position]:
        """Returns {step: Position}."""
        return {step: found.position for step, found in self._readable(run).items() if found.position}

    def _look(self) -> dict[int, Found]:
        """Returns {step: Found} of the current ones. Only new ones are read, without their tensors."""
        seen = {}
        for step in self._steps():
            with contextlib.suppress(FileNotFoundError):  # a writer can remove it at any time
                identity = self._identity(step)
                if step not in self._found or self._found[step].identity != identity:
                    self._found[step] = self._peek(step, identity)
                seen[step] = self._found[step]
        return seen

    def _peek(self, step: int, identity: Identity) -> Found:
        try:
            state = self._read(step, whole=False)
        except Unfit:
            return Found(identity, fits=False)
        except Damaged:
            return Found(identity)
        try:
            return found_in(state, identity)
        except Exception:  # another program's file
            return Found(identity, fits=False)

    def _steps(self) -> list[int]:
        return sorted({int(match[1]) for name in self._names() if (match := NAME.fullmatch(name))})

    def _names(self) -> list[str]:
        try:
            return os.listdir(self._folder)
        except FileNotFoundError:
            return []

    # ---- reading
    def load_newest(self, restore: Callable[[dict[str, Any]], object], run: str | None = None,
                    above: Position | None = None) -> bool:
        """Calls restore(state) with the furthest readable checkpoint, of `run` and above a position if given. Returns
        whether there is one. restore raises Unfit if the state is another program's, which becomes a ValueError."""
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
                raise ValueError(f"{self.path(step)} is a checkpoint of another model or program ({error}): use another "
                                 "folder, or move it away") from error
        return False

    def _next_to_load(self, run: str | None, above: Position | None) -> int | None:
        files = self._look()
        positions = {step: found.position for step, found in files.items()
                     if found.position and run in (None, found.run) and (above is None or found.position > above)}
        furthest = max(positions, key=lambda step: positions[step], default=-1)
        # It may be the newest if it has more steps than all others.
        unfit = max((step for step, found in files.items() if not found.fits), default=-1) if above is None else -1
        step = max(furthest, unfit)
        return step if step >= 0 else None

    def say_that_none_is_left(self) -> None:
        """Reports that the run starts from the beginning."""
        if any(found.position is None for found in self._found.values()):
            print(f"mtrun: no checkpoint in {self._folder} can be read: the run starts over, and they are kept as *.unreadable",
                  file=sys.stderr)

    # ---- writing
    def save(self, state: dict[str, Any], confirm: Callable[[], object], alone: bool = False) -> None:
        """Saves atomically: writes a temporary file, syncs it, and renames it after `confirm` returns. The newest KEPT
        stay; older ones of another branch are moved aside. `alone`: the worker is outside of a generation."""
        lineage, step = lineage_of(state), state["sampler"]["step"]
        os.makedirs(self._folder, exist_ok=True)
        self._remove_aborted()
        target = os.path.join(self._folder, f"replica_{step}")
        partial = self._partial(step)
        remove(partial)
        with removed_after_error(partial):
            checkpoint_folder.write(partial, state)
            ours = self._positions(state["run"])
            removed, others = sort_out(ours, lineage, step, alone)
            damaged = [each for each, found in self._look().items() if found.position is None
                       and (each == step or not alone and (each > step or each < min(ours, default=step)))]
            confirm()
            for each in others:
                self._move_aside(each, f"the run saves {lineage.position(step)}")
            for each in damaged:
                self._set_apart(each)
            earlier = self.path(step)
            self._found[step] = found_in(state, checkpoint_folder.identity(partial))
            put_in_place(partial, target)
        sync_folder(self._folder)
        for each in removed:
            self._remove(each)
        if earlier != target:
            remove(earlier)
        remove(partial)  # one of the same name as the new one

    def _move_aside(self, step: int, why: str) -> None:
        position, path = self._found[step].position, self.path(step)
        assert position is not None  # only readable ones are moved
        name = f"branch_{position.generation}_replica_{step}"
        target = self._free(name, os.path.splitext(path)[1])
        if self._rename(step, target):
            print(f"mtrun: {path} is from another branch of this run, {position}, and is kept as "
                  f"{os.path.basename(target)}: {why}", file=sys.stderr)

    def _free(self, name: str, end: str) -> str:
        """Returns a path that does not exist: a person may have restored one from another branch."""
        target, number = os.path.join(self._folder, name + end), 1
        while os.path.lexists(target):
            number += 1
            target = os.path.join(self._folder, f"{name}.{number}{end}")
        return target

    def _set_apart(self, step: int) -> None:
        """Renames an unreadable one, so that a person can still recover data from it."""
        self._rename(step, self._free(os.path.basename(self.path(step)), ".unreadable"))

    def _rename(self, step: int, target: str) -> bool:
        """Returns False if another worker has renamed it or saved a new one in its place."""
        with contextlib.suppress(FileNotFoundError):
            if self._identity(step) == self._found[step].identity:
                os.rename(self.path(step), target)
                return True
        return False

    def _remove(self, step: int) -> None:
        """Renames it first, so that an interrupted removal leaves no part of it under its name."""
        aside = self._partial(step)
        remove(aside)
        if self._rename(step, aside):
            remove(aside)

    def _partial(self, step: int) -> str:
        """Returns the path at which this process writes and removes a checkpoint."""
        return os.path.join(self._folder, f"replica_{step}.{socket.gethostname()}.{os.getpid()}.partial")

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Holds the folder exclusively, if its file system has locks."""
        os.makedirs(self._folder, exist_ok=True)
        # Over NFS a lock on the folder itself would only work on one machine.
        path = os.path.join(self._folder, ".lock")
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            _await_turn(lock, path)
            yield
        finally:
            os.close(lock)

    def _read(self, step: int, whole: bool = True) -> dict[str, Any]:
        """Returns the state; without tensors if not `whole`. Raises Damaged after printing the reason, or Unfit."""
        path = self.path(step)
        form = earlier_checkpoint if path.endswith(".pt") else checkpoint_folder
        try:
            return form.read(path) if whole else form.peek(path)
        except FileNotFoundError:
            raise
        except (Damaged, OSError) as error:
            if isinstance(error, OSError) and error.errno not in OF_THE_FILE:
                self.refused = error
            print(f"mtrun: {path} cannot be read, using the one before it: {error}", file=sys.stderr)
            raise Damaged(error) from error

    def _identity(self, step: int) -> Identity:
        """Returns the current one's identity; empty if it cannot be examined: reading it then reports why."""
        try:
            return checkpoint_folder.identity(self.path(step))
        except FileNotFoundError:
            raise
        except OSError:
            return ()

    def _remove_aborted(self) -> None:
        for name in os.listdir(self._folder):
            path = os.path.join(self._folder, name)
            if name.startswith("replica_") and name.endswith(".partial"):
                with contextlib.suppress(FileNotFoundError):
                    if time.time() - _last_write(path) > ABORTED_SECONDS:
                        remove(path)


def _last_write(path: str) -> float:
    inside = [os.path.join(path, name) for name in os.listdir(path)] if os.path.isdir(path) else []
    return max(os.stat(each).st_mtime for each in (path, *inside))


def _await_turn(lock: int, path: str) -> None:
    """Waits for the lock, but not for ever: two concurrent saves do less harm than a state that is never saved."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        print(f"mtrun: saving the last state without a lock: lock {path}: {os.strerror(error.errno)}", file=sys.stderr)
