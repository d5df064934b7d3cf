"""Writes tensors to safetensors files and reads them."""
from __future__ import annotations

from typing import BinaryIO

import torch

from mtrun.tensor_files import Malformed, head_of, read_head
from mtrun.tensor_memory import memory_of

DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
          "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U64": torch.uint64, "U32": torch.uint32,
          "U16": torch.uint16, "U8": torch.uint8, "BOOL": torch.bool, "C64": torch.complex64, "F8_E4M3": torch.float8_e4m3fn,
          "F8_E5M2": torch.float8_e5m2, "F8_E4M3FNUZ": torch.float8_e4m3fnuz, "F8_E5M2FNUZ": torch.float8_e5m2fnuz}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


def write_tensors(file: BinaryIO, tensors: dict[str, torch.Tensor], metadata: dict[str, str]) -> None:
    """Writes tensors of any device and strides, each whole: those that share memory in turn. Elements of a type that the
    format lacks are written as U8 with one more dimension: their bytes."""
    # The largest elements first: each tensor's bytes are aligned.
    order = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    file.write(head_of((_described(name, tensors[name]) for name in order), {"format": "pt", **metadata}))
    for name in order:
        row = tensors[name].detach().cpu().contiguous().resolve_conj().resolve_neg()
        file.write(memory_of(row))


def _described(name: str, tensor: torch.Tensor) -> tuple[str, str, tuple[int, ...], int]:
    size = tensor.numel() * tensor.element_size()
    if tensor.dtype in NAMES:
        return name, NAMES[tensor.dtype], tuple(tensor.shape), size
    return name, "U8", (*tensor.shape, tensor.element_size()), size


def read_tensors(file: BinaryIO, path: str) -> dict[str, torch.Tensor]:
    """Returns the tensors of a file by name, in memory of their own. The file is read once, from begin to end. Raises
    Malformed, which names `path`."""
    tensors = {}
    for name, record in read_head(file, path).records.items():
        if record.dtype not in DTYPES:
            raise Malformed(f"{path}: {name} is of the type {record.dtype}, which PyTorch {torch.__version__} lacks")
        tensors[name] = torch.empty(record.shape, dtype=DTYPES[record.dtype])
        memory = memory_of(tensors[name])
        if len(memory) and file.readinto(memory) != len(memory):  # type: ignore[attr-defined]
            raise Malformed(f"{path} ends within {name}")
    return tensors
