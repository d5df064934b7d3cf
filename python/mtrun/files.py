"""Files that a reader or a crash finds whole."""
from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
from collections.abc import Iterator
from typing import BinaryIO

AT_FDCWD, RENAME_EXCHANGE = -100, 2  # of <fcntl.h> and <linux/fs.h>


@contextlib.contextmanager
def named(path: str) -> Iterator[str]:
    """Yields `path`, and gives its name to an OSError that has none: writes of a disk that is full raise such ones."""
    try:
        yield path
    except OSError as error:
        if error.filename is not None or error.errno is None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), path) from None


@contextlib.contextmanager
def removed_after_error(path: str) -> Iterator[None]:
    """Removes the file or folder `path` after an error: what is left of it would keep a full disk full."""
    try:
        yield
    except BaseException:
        remove(path)
        raise


@contextlib.contextmanager
def replacing(path: str) -> Iterator[BinaryIO]:
    """Opens `path`.partial, which takes the place of `path` at the end, after a sync. After an error `path` is as before."""
    partial = path + ".partial"
    with removed_after_error(partial), named(partial), open(partial, "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)


def remove(path: str) -> None:
    """Removes a file or a folder, as far as possible."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            os.remove(path)


def exchange(one: str, other: str) -> None:
    """Exchanges two names at once. OSError if the file system cannot."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)  # glibc 2.28
    if call is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), one)
    if call(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), one, None, other)


def put_in_place(path: str, target: str) -> None:
    """Renames the folder `path` to `target`. A folder there is exchanged with it and gets the name `path`; if the file system
    cannot exchange names, there is no `target` for a moment."""
    try:
        os.rename(path, target)
        return
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
    try:
        exchange(path, target)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
            raise
        os.rename(target, path + ".before")
        os.rename(path, target)
        os.rename(path + ".before", path)


def sync_folder(path: str) -> None:
    """Keeps the names in a folder through a power failure. Some file systems cannot."""
    with contextlib.suppress(OSError):
        folder = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
