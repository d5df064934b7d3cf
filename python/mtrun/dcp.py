"""Reads checkpoints of torch.distributed.checkpoint (DCP), so that a Replica starts from them."""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.distributed.checkpoint.metadata import Metadata

from mtrun.dcp_folder import read_index, read_values
from mtrun.models import plain

GROUPS = "param_groups."


def load_dcp(folder: str, model: torch.nn.Module, optimizer: torch.optim.Optimizer | None = None, *,
             model_key: str | None = None, optimizer_key: str | None = None) -> None:
    """Loads weights and, if given, the optimizer's state from a folder of torch.distributed.checkpoint.save, whatever the
    number of processes that wrote it. Call it on every worker before it makes its `Replica`, whose own checkpoints count
    more.

    The saved dictionary may have any nesting, and its optimizer the form of Optimizer.state_dict() or get_state_dict().
    `model_key`, `optimizer_key`: their keys, joined by dots, as "app.model"; found if the folder has one that fits.
    ValueError if it has none or several, if shapes differ, or if a value is more than data: numbers, text, tensors and
    containers of them are read, nothing is executed. Then nothing is loaded."""
    index, model = read_index(folder), plain(model)
    weights = model.state_dict()
    keys, first = index.state_dict_metadata, next(iter(weights), "")
    roots = [key[:len(key) - len(first)] for key in keys if key.endswith(first)]
    begin = _chosen(folder, "the model", model_key, [
        root for root in roots if (not root or root.endswith(".")) and all(root + name in keys for name in weights)])
    sizes = {name: getattr(keys[begin + name], "size", ()) for name in weights}
    other = [name for name, value in weights.items() if isinstance(value, torch.Tensor) and value.shape != sizes[name]]
    if other:
        raise ValueError(f"{folder} is of another model: {other[0]} is {list(sizes[other[0]])} there, "
                         f"{list(weights[other[0]].shape)} here")
    read = _read(folder, index, begin, weights)
    state = None
    if optimizer is not None:
        begin = _chosen(folder, "the optimizer", optimizer_key, [key[:key.index(GROUPS)] for key in keys if GROUPS in key])
        rest = [key[len(begin):] for key in keys if key.startswith((f"{begin}state.", f"{begin}{GROUPS}"))]
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        state = _of_optimizer(folder, _read(folder, index, begin, rest), optimizer, names)
    model.load_state_dict(read)
    if optimizer is not None and state is not None:
        optimizer.load_state_dict(state)


def _chosen(folder: str, what: str, key: str | None, found: list[str]) -> str:
    """Returns the beginning of the keys of one part."""
    choices = sorted(set(found) if key is None else set(found) & {key and f"{key}."})
    if len(choices) == 1:
        return choices[0]
    names = ", ".join(repr(each[:-1]) for each in sorted(set(found))) or "none"
    where = "" if key is None else f" at {key!r}"
    raise ValueError(f"{folder} has {len(choices)} entries that fit {what}{where} (found: {names}): give model_key and "
                     "optimizer_key")


def _read(folder: str, index: Metadata, begin: str, names: Iterable[str]) -> dict[str, Any]:
    """Returns the values of the keys that begin so and end with a name, by name."""
    values = read_values(folder, index, [begin + name for name in names])
    return {key[len(begin):]: value for key, value in values.items()}


def _of_optimizer(folder: str, read: dict[str, Any], optimizer: torch.optim.Optimizer, names: dict[int, str]) -> dict[str, Any]:
    """Returns the state_dict of this optimizer."""
    own = optimizer.state_dict()
    state: dict[int, dict[str, Any]] = {}
    for number, (group, mine) in enumerate(zip(optimizer.param_groups, own["param_groups"])):
        saved = read.get(f"{GROUPS}{number}.params")  # numbers, or names, or None if each parameter has its own values
        if saved and len(saved) != len(group["params"]):
            raise ValueError(f"{folder} is of another optimizer: parameter group {number} has {len(saved)} parameters there, "
                             f"{len(group['params'])} here")
        for place, (parameter, index) in enumerate(zip(group["params"], mine["params"])):
            name = names.get(id(parameter), "")
            of_state = f"state.{saved[place] if saved and isinstance(saved[0], int) else name}."
            values = {key[len(of_state):]: value for key, value in read.items() if key.startswith(of_state)}
            if values:
                state[index] = values
        begin = f"{GROUPS}{number}." if saved else f"{GROUPS}{names.get(id(group['params'][0]), '')}."
        theirs = {key[len(begin):]: value for key, value in read.items() if key.startswith(begin)}
        if not theirs:
            raise ValueError(f"{folder} is of another optimizer: it has no parameter group {number}")
        mine.update({key: value for key, value in theirs.items() if key in mine and key != "params"})
    return {"state": state, "param_groups": own["param_groups"]}
