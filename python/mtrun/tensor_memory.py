"""The bytes of tensors: what files and digests are made of."""
from __future__ import annotations

import ctypes
from typing import Any

import torch


def memory_of(tensor: torch.Tensor) -> Any:
    """Returns a buffer over a tensor's memory, valid while the tensor is. REQUIRES: on the CPU, contiguous."""
    # Through ctypes, because tensor.numpy() would need NumPy, which PyTorch can be installed without.
    size = tensor.numel() * tensor.element_size()
    return (ctypes.c_char * size).from_address(tensor.data_ptr()) if size else b""


def dense_strides(tensor: torch.Tensor) -> tuple[int, ...]:
    """Returns the strides of a copy without gaps between its elements, as torch.empty_like makes it."""
    return tuple(torch.empty_like(tensor, device="meta").stride())


def is_plain(tensor: torch.Tensor) -> bool:
    """Returns whether the tensor is memory with a shape and strides: neither sparse, quantized nor of another library."""
    return type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout == torch.strided and not tensor.is_quantized
