"""States as torch objects save them: dicts, lists and tuples with tensors and other values in them."""
from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch


def map_tensors(tree: Any, call: Callable[[torch.Tensor], Any]) -> Any:
    """Returns a copy of a state in which each tensor is replaced by call(tensor), in a fixed order. Containers keep their
    type and attributes (a module's state_dict has versions in one). Other values are copied."""
    if isinstance(tree, torch.Tensor):
        return call(tree)
    if isinstance(tree, dict):
        new = copy.copy(tree)
        for key, value in tree.items():
            new[key] = map_tensors(value, call)
        return new
    if isinstance(tree, tuple):
        values = [map_tensors(value, call) for value in tree]
        return type(tree)(*values) if hasattr(tree, "_fields") else type(tree)(values)
    if isinstance(tree, list):
        return [map_tensors(value, call) for value in tree]
    return copy.deepcopy(tree)
