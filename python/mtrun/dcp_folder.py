"""Reads folders of torch.distributed.checkpoint (DCP) as data. PyTorch's own reader executes their pickles: `.metadata` by
pickle.load, and each value that is not a tensor by torch.load(weights_only=False)."""
from __future__ import annotations

import collections
import io
import os
import pathlib
import pickle
from collections.abc import Iterable
from typing import Any

import torch
from torch.distributed.checkpoint import DefaultLoadPlanner, FileSystemReader, filesystem, metadata
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.planner import ReadItem
from torch.distributed.checkpoint.state_dict_loader import load

PLAIN = {  # what an index consists of; all make values and do nothing else
    **{(kind.__module__, kind.__name__): kind for kind in (
        collections.OrderedDict, metadata.BytesStorageMetadata, metadata.ChunkStorageMetadata, metadata.Metadata,
        metadata.MetadataIndex, metadata.StorageMeta, metadata.TensorProperties, metadata.TensorStorageMetadata,
        metadata._MEM_FORMAT_ENCODING, filesystem._StorageInfo, torch.Size, torch.device)},
    **{("pathlib", name): getattr(pathlib, name) for name in ("Path", "PosixPath", "PurePath", "PurePosixPath")},
    ("torch.serialization", "_get_layout"): torch.serialization._get_layout,
}


def read_index(folder: str) -> metadata.Metadata:
    """Returns what the folder has: shapes, types and places by key. FileNotFoundError without an index, ValueError if the index
    is damaged or needs more than data."""
    try:
        return _Reader(folder).read_metadata()
    except OSError:
        raise
    except Exception as error:  # a damaged pickle raises errors of many types
        raise ValueError(f"{os.path.join(folder, '.metadata')} is not loaded: {error or type(error).__name__}") from error


def read_values(folder: str, index: metadata.Metadata, keys: Iterable[str]) -> dict[str, Any]:
    """Returns the values by key: tensors, and what torch.load reads with weights_only. ValueError if a value needs more than
    data or its file is damaged, OSError if the file cannot be read."""
    entries = {key: index.state_dict_metadata[key] for key in keys}
    values: dict[str, Any] = {
        key: torch.empty(entry.size, dtype=entry.properties.dtype) if isinstance(entry, metadata.TensorStorageMetadata) else None
        for key, entry in entries.items()}
    try:
        load(values, storage_reader=_Reader(folder), planner=_Planner(), no_dist=True)
    except CheckpointException as several:  # no Exception, and its text is a traceback
        error = next(error for error, _ in several.failures.values())
        if isinstance(error, OSError):
            raise error from None
        raise ValueError(f"{folder} is not loaded: {error or type(error).__name__}") from error
    return values


class _Index(pickle.Unpickler):
    """Makes nothing that is not in PLAIN or a type of numbers."""

    def find_class(self, module: str, name: str) -> Any:
        found = PLAIN.get((module, name)) or (module == "torch" and getattr(torch, name, None))
        if (module, name) in PLAIN or isinstance(found, (torch.dtype, torch.layout)):
            return found
        raise pickle.UnpicklingError(f"it needs {module}.{name}, and only data is read")


class _Reader(FileSystemReader):
    def read_metadata(self, *_: Any, **__: Any) -> metadata.Metadata:
        with open(os.path.join(self.path, ".metadata"), "rb") as file:
            index = _Index(file).load()
        if not isinstance(index, metadata.Metadata):
            raise ValueError(f"it is no index but a {type(index).__name__}")
        return index


class _Planner(DefaultLoadPlanner):
    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        key = read_item.dest_index.fqn
        try:
            self.original_state_dict[key] = torch.load(value, weights_only=True)
        except pickle.UnpicklingError as error:
            raise ValueError(f"{key} needs more than data: {str(error).splitlines()[0]}") from error
