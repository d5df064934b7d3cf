"""The head of a safetensors file (https://huggingface.co/docs/safetensors): 8 bytes with the length of a JSON object,
little-endian, that object, and the bytes of all tensors. Needs only Python's own library."""
from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterable
from typing import Any, BinaryIO, NamedTuple

MAX_HEAD = 100 << 20  # bytes; the format's own limit
METADATA = "__metadata__"
# Bytes of an element.
SIZES = {"F64": 8, "I64": 8, "U64": 8, "C64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2, "U16": 2,
         "BOOL": 1, "I8": 1, "U8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E4M3FNUZ": 1, "F8_E5M2FNUZ": 1}


class Malformed(ValueError):
    """The file is not a safetensors file."""


class Record(NamedTuple):
    """A tensor's place. `begin`, `end`: bytes of the file."""
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


class Head(NamedTuple):
    """What precedes the tensors' bytes. `records`: by name, in the order of their bytes."""
    records: dict[str, Record]
    metadata: dict[str, str]


def read_head(file: BinaryIO, path: str) -> Head:
    """Reads the head of a file and leaves it at the first tensor's bytes. Raises Malformed, which names `path`; also if the
    tensors' bytes are not exactly the rest of the file, as the format demands."""
    prefix = file.read(8)
    length = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else MAX_HEAD + 1
    if length > MAX_HEAD:
        raise Malformed(f"{path} is no safetensors file")
    try:
        head = json.loads(file.read(length))
        metadata = head.pop(METADATA, {})
        found = sorted((_record(name, each, 8 + length) for name, each in head.items()), key=lambda pair: pair[1][2:])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Malformed(f"{path} is no safetensors file: {error}") from error
    end = 8 + length
    for name, record in found:
        if record.begin != end:
            raise Malformed(f"{path} is no safetensors file: {name} begins at byte {record.begin} instead of {end}")
        end = record.end
    if (size := os.fstat(file.fileno()).st_size) != end:
        raise Malformed(f"{path} is no safetensors file: it has {size} bytes, but its tensors end at {end}")
    return Head(dict(found), metadata)


def _record(name: str, entry: dict[str, Any], start: int) -> tuple[str, Record]:
    dtype, shape, (begin, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
    if not isinstance(dtype, str) or not all(type(each) is int and each >= 0 for each in (*shape, begin, end)) or begin > end:
        raise ValueError(f"{name} is described as {entry}")
    size = SIZES.get(dtype)
    for each in shape:
        size = size and size * each
    if size is not None and size != end - begin:
        raise ValueError(f"{name}, {dtype} {list(shape)}, has {end - begin} bytes")
    return name, Record(dtype, shape, start + begin, start + end)


def head_of(tensors: Iterable[tuple[str, str, Iterable[int], int]], metadata: dict[str, str]) -> bytes:
    """Returns the head of a file with these tensors: (name, dtype, shape, bytes), in the order of their bytes."""
    head: dict[str, object] = {METADATA: metadata}
    end = 0
    for name, dtype, shape, size in tensors:
        head[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # so that tensors are aligned
    return struct.pack("<Q", len(text)) + text
