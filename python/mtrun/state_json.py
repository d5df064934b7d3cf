"""States as JSON beside files of tensors (docs/formats.md, "Checkpoints of Python programs"). A value that JSON lacks is an
object with one key that begins with "$". Nothing is executed when a state is read."""
from __future__ import annotations

import base64
import collections
import math
from collections.abc import Callable, Iterable
from typing import Any

import torch

from mtrun.tensor_io import NAMES
from mtrun.tensor_memory import dense_strides, is_plain

MODEL, REST = "model.safetensors", "optimizer.safetensors"  # files of tensors
Tensors = dict[str, dict[str, torch.Tensor]]  # by file and name


class Encoder:
    """Encodes one state. `tensors`: those met, by file and name. Those of `model` have their names of the state_dict, those
    of the optimizer that of their parameter, if `parameters` has these in the optimizer's order."""

    def __init__(self, parameters: Iterable[str] = ()) -> None:
        self.tensors: Tensors = {MODEL: {}, REST: {}}
        self._parameters = list(parameters)
        self._names: dict[Any, str] = {}  # of tensors in REST

    def encode(self, value: Any, place: tuple[Any, ...] = ()) -> Any:
        """Returns the JSON of a value. `place`: its keys from the root on. ValueError if there is none."""
        kind = type(value)
        if isinstance(value, torch.Tensor):
            return self._tensor(value, place)
        if value is None or kind in (bool, int, str):
            return value
        if isinstance(value, float):  # NumPy's float64 is one
            return float(value) if math.isfinite(value) else {"$float": str(float(value))}
        if kind in (dict, collections.OrderedDict, collections.Counter):
            return self._dict(value, place)
        if kind in SEQUENCES:
            items = [self.encode(each, (*place, number)) for number, each in enumerate(value)]
            return items if kind is list else {SEQUENCES[kind]: items}
        if kind in SCALARS:
            return {f"${SCALARS[kind][0]}": SCALARS[kind][1](value)}
        raise ValueError(f"{_text(place)} is of the type {kind.__module__}.{kind.__qualname__}, which a checkpoint cannot "
                         "hold: let its state_dict() return tensors, numbers, texts, lists, tuples, sets and dicts")

    def _dict(self, value: dict[Any, Any], place: tuple[Any, ...]) -> Any:
        pairs = [(key, self.encode(each, (*place, key))) for key, each in value.items()]
        if type(value) is dict and all(type(key) is str and not key.startswith("$") for key in value):
            return dict(pairs)
        tag = {dict: "$dict", collections.OrderedDict: "$ordered", collections.Counter: "$counter"}[type(value)]
        found = {tag: [[self.encode(key, (*place, "a key")), each] for key, each in pairs]}
        metadata = getattr(value, "_metadata", None)  # the versions of a module's state_dict
        return {**found, "metadata": self.encode(dict(metadata), (*place, "_metadata"))} if metadata else found

    def _tensor(self, tensor: torch.Tensor, place: tuple[Any, ...]) -> Any:
        if not is_plain(tensor):
            raise ValueError(f"{_text(place)} is a tensor of the kind {type(tensor).__name__} {tensor.layout}, which a "
                             "checkpoint cannot hold: let its state_dict() return plain ones")
        file = MODEL if len(place) == 2 and place[0] == "model" else REST
        found: dict[str, Any] = {"$tensor": [file, self._name(tensor, place, file)]}
        strides = dense_strides(tensor)
        if strides != torch.empty(tensor.shape, device="meta").stride():
            found["strides"] = list(strides)  # channels-last, for example
        if tensor.dtype not in NAMES:
            found["dtype"] = str(tensor.dtype)[6:]
        return found

    def _name(self, tensor: torch.Tensor, place: tuple[Any, ...], file: str) -> str:
        """Names a tensor. One that occurs twice outside of the model is kept once."""
        if file == MODEL:
            self.tensors[MODEL][place[1]] = tensor
            return str(place[1])
        same = tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride(), tensor.device, tensor.numel() or object()
        if same not in self._names:
            self._names[same] = self._free(self._readable(place))
            self.tensors[REST][self._names[same]] = tensor
        return self._names[same]

    def _readable(self, place: tuple[Any, ...]) -> str:
        root, *keys = place
        if root == "more" and keys:
            root, *keys = keys
        elif root == "optimizer" and keys[0] == "state" and keys[1] in range(len(self._parameters)):
            keys = [self._parameters[keys[1]], *keys[2:]]
        return f"{root}/{'.'.join(map(str, keys))}"

    def _free(self, name: str) -> str:
        number, free = 1, name
        while free in self.tensors[REST]:
            number += 1
            free = f"{name}~{number}"
        return free


def decode(value: Any, tensors: Tensors) -> Any:
    """Returns the value that was encoded. Any exception if it was encoded by another program."""
    if isinstance(value, list):
        return [decode(each, tensors) for each in value]
    if not isinstance(value, dict):
        return value
    tag = next((key for key in value if key.startswith("$")), None)
    if tag is None:
        return {key: decode(each, tensors) for key, each in value.items()}
    if tag == "$tensor":
        return _placed(value, tensors)
    if tag in DICTS:
        found = DICTS[tag]((decode(key, tensors), decode(each, tensors)) for key, each in value[tag])
        if "metadata" in value:
            metadata = collections.OrderedDict(decode(value["metadata"], tensors))
            found._metadata = metadata  # as Module.state_dict() leaves it
        return found
    if tag in LISTS:
        return LISTS[tag](decode(value[tag], tensors))
    return VALUES[tag](value[tag])


def _placed(entry: dict[str, Any], tensors: Tensors) -> torch.Tensor:
    """Returns a tensor with its own type and strides; the same one each time."""
    file, name = entry["$tensor"]
    tensor, shape = tensors[file][name], None
    if "dtype" in entry:
        dtype = _dtype(entry["dtype"])
        if tensor.dtype != dtype:
            shape = tensor.shape[:-1]
            tensor = tensor.view(dtype).reshape(shape)
    if "strides" in entry and tensor.stride() != tuple(entry["strides"]):
        tensor = torch.empty_strided(tensor.shape, entry["strides"], dtype=tensor.dtype).copy_(tensor)
    tensors[file][name] = tensor
    return tensor


def _dtype(name: str) -> torch.dtype:
    found = getattr(torch, name)
    if not isinstance(found, torch.dtype):
        raise ValueError(f"{name!r} is not a dtype")
    return found


def _text(place: tuple[Any, ...]) -> str:
    """Returns where a value is in the program's words."""
    words = [str(key) for key in (place[1:] if place[:1] == ("more",) else place)]
    return ".".join(words) or "the state"


def _counter(pairs: Iterable[tuple[Any, Any]]) -> collections.Counter[Any]:
    return collections.Counter(dict(pairs))


SEQUENCES = {list: "", tuple: "$tuple", set: "$set", torch.Size: "$size"}
# By type: tag, to JSON, from JSON.
SCALARS: dict[type, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = {
    bytes: ("bytes", lambda value: base64.b64encode(value).decode(), base64.b64decode),
    bytearray: ("bytearray", lambda value: base64.b64encode(value).decode(), lambda text: bytearray(base64.b64decode(text))),
    complex: ("complex", repr, complex),
    torch.dtype: ("dtype", lambda value: str(value)[6:], _dtype),
    torch.device: ("device", str, torch.device)}
VALUES: dict[str, Callable[[Any], Any]] = {"$float": float, **{f"${tag}": read for tag, _, read in SCALARS.values()}}
LISTS: dict[str, Callable[[Any], Any]] = {"$tuple": tuple, "$set": set, "$size": torch.Size}
DICTS: dict[str, Callable[[Any], Any]] = {"$dict": dict, "$ordered": collections.OrderedDict, "$counter": _counter}
