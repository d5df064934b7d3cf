"""Files that a reader or a crash finds whole."""
from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import BinaryIO


@contextlib.contextmanager
def replacing(path: str) -> Iterator[BinaryIO]:
    """Opens `path`.partial, which takes the place of `path` at the end, after a sync. After an error `path` is as before."""
    with open(path + ".partial", "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".partial", path)
