"""Files that a reader or a crash finds whole."""
from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import BinaryIO


class _KeepsErrors:
    """What torch.save calls of a file; the first error is kept."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.error = file, None

    @contextlib.contextmanager
    def _kept(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.error = self.error or error
            raise

    def write(self, data: bytes) -> int:
        with self._kept():
            return self._file.write(data)

    def flush(self) -> None:
        with self._kept():
            self._file.flush()


@contextlib.contextmanager
def for_torch(file: BinaryIO) -> Iterator[_KeepsErrors]:
    """Yields what torch.save can write into. Raises the OSError of a disk that is full, with the file's name: torch.save
    makes it a RuntimeError, "unexpected pos 704 vs 598" (PyTorch 2.11, caffe2/serialize/inline_container.cc)."""
    written = _KeepsErrors(file)
    try:
        yield written
    except RuntimeError:
        if written.error is None:
            raise
        raise OSError(written.error.errno, os.strerror(written.error.errno or 0), file.name) from None


@contextlib.contextmanager
def removed_after_error(path: str) -> Iterator[None]:
    """Removes the file `path` after an error: what is left of it would keep a full disk full."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            os.remove(path)
        raise


@contextlib.contextmanager
def replacing(path: str) -> Iterator[BinaryIO]:
    """Opens `path`.partial, which takes the place of `path` at the end, after a sync. After an error `path` is as before."""
    with open(path + ".partial", "wb") as file, removed_after_error(file.name):
        yield file
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".partial", path)
