"""Reads checkpoints of earlier releases: replica_N.pt, a file of torch.save."""
from __future__ import annotations

import pickle
import zipfile
from typing import Any

import torch

from mtrun.checkpoint_folder import Damaged, Unfit


def peek(path: str) -> dict[str, Any]:
    """Returns the state, whose tensors stay on the disk. Errors as for read()."""
    return read(path, mmap=zipfile.is_zipfile(path))


def read(path: str, mmap: bool = False) -> dict[str, Any]:
    """Returns the state. Damaged if the file cannot be read, Unfit if it is whole but has objects that torch.load rejects with
    weights_only. Raises what open() does."""
    try:
        return torch.load(path, weights_only=True, map_location="cpu", mmap=mmap)
    except OSError:
        raise
    except Exception as error:  # torch.load can raise anything for a damaged file
        if isinstance(error, pickle.UnpicklingError) and _is_whole(path):
            raise Unfit(error) from error
        raise Damaged(str(error) or type(error).__name__) from error


def _is_whole(path: str) -> bool:
    """Returns whether every byte is as it was saved."""
    try:
        with zipfile.ZipFile(path) as file:
            return file.testzip() is None
    except Exception:  # a damaged file raises errors of many types
        return False
