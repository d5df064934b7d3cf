"""One checkpoint: a folder with the tensors in safetensors files and everything else in JSON (docs/formats.md, "Checkpoints of
Python programs")."""
from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from mtrun.files import named, sync_folder
from mtrun.state_json import MODEL, REST, Encoder, decode
from mtrun.tensor_io import read_tensors, write_tensors

STATE, DONE = "state.json", "DONE"
FILES = (MODEL, REST, STATE, DONE)
FORMAT, VERSION = "mtrun-replica", 1


class Unfit(Exception):
    """A whole state of another program. Not a RuntimeError, because collectives raise those."""

    def __init__(self, error: object) -> None:
        super().__init__(f"no {error}" if isinstance(error, KeyError) else " ".join(str(error).split()))


class Damaged(Exception):
    """An unreadable checkpoint."""


def encoded(state: dict[str, Any]) -> tuple[dict[str, Any], Encoder]:
    """Returns the JSON of a Replica's state, and the Encoder with its tensors. ValueError if it has values that a checkpoint
    cannot hold."""
    encoder = Encoder(state.get("parameters", ()))
    return {name: encoder.encode(value, (name,)) for name, value in state.items()}, encoder


def write(path: str, state: dict[str, Any]) -> None:
    """Makes the folder `path`. DONE, which has the digests of the others, is written when these are on the disk. OSError names
    the file."""
    text, encoder = encoded(state)
    os.mkdir(path)
    steps = {"steps": str(state["sampler"]["step"])}
    done: dict[str, dict[str, object]] = {}

    def add(name: str, fill: Callable[[BinaryIO], object]) -> None:
        with named(os.path.join(path, name)) as whole, open(whole, "wb") as file:
            hashed = _Hashed(file)
            fill(hashed)  # type: ignore[arg-type]
            file.flush()
            os.fsync(file.fileno())
            done[name] = {"bytes": file.tell(), "sha256": hashed.hexdigest()}

    for file, tensors in encoder.tensors.items():
        add(file, lambda into, tensors=tensors: write_tensors(into, tensors, steps))  # type: ignore[misc]
    add(STATE, lambda into: into.write(_json({"format": FORMAT, "version": VERSION, **text})))
    add(DONE, lambda into: into.write(_json({"format": "mtrun-checkpoint", "version": 1, "files": done})))
    sync_folder(path)


def peek(path: str) -> dict[str, Any]:
    """Returns what state.json has of a checkpoint, without its tensors, of which only the sizes are compared. Errors as for
    read()."""
    with _opened(path) as open_file:
        done = _done(open_file)
        for name in FILES[:2]:
            with open_file(name) as file:
                _compare(name, os.fstat(file.fileno()).st_size, done[name]["bytes"])
        return _state(open_file, done)


def read(path: str) -> dict[str, Any]:
    """Returns the state of a checkpoint. Damaged if it is not as it was written, Unfit if it was not written by a Replica,
    OSError if the disk cannot read it; FileNotFoundError if there is no folder of that name any more."""
    with _opened(path) as open_file:
        done = _done(open_file)
        state, tensors = _state(open_file, done), {}
        for name in FILES[:2]:
            with open_file(name) as file:
                hashed = _Hashed(file)
                tensors[name] = read_tensors(hashed, name)  # type: ignore[arg-type]
            _compare(name, hashed.hexdigest(), done[name]["sha256"])
    try:
        return {name: decode(value, tensors) for name, value in state.items() if name not in ("format", "version")}
    except Exception as error:  # every byte is as it was written, so it is another program's
        raise Unfit(error) from error


def identity(path: str) -> tuple[object, ...]:
    """Returns what changes if the checkpoint does. FileNotFoundError if there is none."""
    found = [os.stat(path)]
    for name in FILES:
        with contextlib.suppress(OSError):
            found.append(os.stat(os.path.join(path, name)))
    return tuple((each.st_ino, each.st_mtime_ns, each.st_size) for each in found)


class _Hashed:
    """A file whose bytes are digested as they are read or written, from begin to end."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._digest, self.fileno = file, hashlib.sha256(), file.fileno

    def hexdigest(self) -> str:
        return self._digest.hexdigest()

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._digest.update(data)
        return data

    def readinto(self, memory: Any) -> int:
        size: int = self._file.readinto(memory)  # type: ignore[attr-defined]
        self._digest.update(memoryview(memory)[:size])
        return size

    def write(self, data: Any) -> int:
        self._digest.update(data)
        return self._file.write(data)


@contextlib.contextmanager
def _opened(path: str) -> Iterator[Callable[[str], BinaryIO]]:
    """Yields what opens the files of one folder, even if another one gets its name. Damaged if one is missing or malformed."""
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except NotADirectoryError as error:
        raise Damaged(error) from error
    try:
        yield lambda name: open(name, "rb", opener=lambda name, flags: os.open(name, flags, dir_fd=folder))
    except FileNotFoundError as error:
        if not os.path.exists(path):
            raise  # removed by its writer
        raise Damaged(f"{error.filename} is missing") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:  # of files that are not as they were written
        raise Damaged(error) from error
    finally:
        os.close(folder)


def _done(open_file: Callable[[str], BinaryIO]) -> dict[str, dict[str, Any]]:
    with open_file(DONE) as file:
        files = json.load(file)["files"]
    return {name: dict(files[name]) for name in FILES[:3]}


def _state(open_file: Callable[[str], BinaryIO], done: dict[str, dict[str, Any]]) -> dict[str, Any]:
    with open_file(STATE) as file:
        text = file.read()
    _compare(STATE, hashlib.sha256(text).hexdigest(), done[STATE]["sha256"])
    state = json.loads(text)
    if (kind := (state["format"], state["version"])) != (FORMAT, VERSION):
        raise Unfit(f"its {STATE} is of the format {kind[0]}, version {kind[1]}; this mtrun reads {FORMAT}, version {VERSION}")
    return dict(state)


def _compare(name: str, seen: object, wanted: object) -> None:
    if seen != wanted:
        raise Damaged(f"{name} is not as it was saved: {seen} instead of {wanted}")


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode() + b"\n"
