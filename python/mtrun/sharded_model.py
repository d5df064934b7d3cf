"""A model that torch's fully_shard divides among the workers of a node; each node holds one replica. The program gives
a function that shards it, which is called in each generation, because its process groups are new."""
from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from mtrun import fsdp
from mtrun.job import Interrupted, Job
from mtrun.local_shard import LocalShard
from mtrun.shard_collectives import ShardCollectives
from mtrun.shard_layout import ShardLayout, layout_of, part_of
from mtrun.torch_store import CONNECT_TIMEOUT
from mtrun.whole_model import WholeModel

Shard = Callable[[torch.nn.Module, Any], object]


class ShardedModel(WholeModel):
    """1. Between generations it keeps this worker's shards of weights and optimizer; parameters and optimizer get new
    tensors around the same memory in `enter`.
    2. A pass that the end of the generation interrupts finishes with zeros, and `interrupted` is set."""

    def __init__(self, model: torch.nn.Module, shard: Shard) -> None:
        super().__init__(model)
        self._shard = shard
        self._layout: ShardLayout | None = None  # of the shards that it holds; None: it is still whole
        self._collectives: ShardCollectives | None = None
        self._trained: list[LocalShard] = []
        self._next = ShardLayout(1, 1, 0)
        self._mesh: Any = None

    # ---- a generation
    def connect(self, job: Job) -> None:
        self._next = layout = layout_of(job.assignment)
        within = _group(list(layout.node), job.world_size)
        self.group = _group(layout.columns[layout.shard], job.world_size)
        self._mesh = DeviceMesh.from_group(within, next(self._model.parameters()).device.type)
        self._collectives = ShardCollectives(job, within)

    def enter(self, optimizer: torch.optim.Optimizer) -> bool:
        before, self._layout = self._layout, self._next
        self.node, self.shards = self._next.node, self._next.shards
        same = before is None or (before.shards, before.shard) == (self._next.shards, self._next.shard)
        fsdp.reshard(self._model)
        names = {id(p): name for name, p in self._model.named_parameters()}
        held = fsdp.take_apart(self._model) if before else None
        self._shard(self._model, self._mesh)
        _check(self._model)
        if before:
            fsdp.put_back(self._model, held if same else None)
        assert self._collectives
        fsdp.connect(self._model, self._collectives)
        self._rebind(optimizer, names, same)
        self._trained = [LocalShard(p) for p in self._model.parameters() if p.requires_grad]
        return same

    def _rebind(self, optimizer: torch.optim.Optimizer, names: dict[int, str], same: bool) -> None:
        """Gives the optimizer the new parameters, and its state of the old ones."""
        new = dict(self._model.named_parameters())
        states = {}
        for group in optimizer.param_groups:
            for place, old in enumerate(group["params"]):
                group["params"][place] = parameter = new[names[id(old)]] if id(old) in names else old
                state = optimizer.state[old].items() if old in optimizer.state and same else ()
                if state:
                    states[parameter] = {key: _like(value, old, parameter) for key, value in state}
        optimizer.state.clear()
        optimizer.state.update(states)

    def begin_step(self) -> None:
        fsdp.reshard(self._model)
        if self.interrupted:
            raise self.interrupted

    @property
    def interrupted(self) -> Interrupted | None:
        return self._collectives.error if self._collectives else None

    def columns(self, world_size: int) -> list[list[int]]:  # noqa: ARG002
        return self._next.columns

    # ---- tensors
    def trained(self) -> list[Any]:
        return self._trained

    def tensors(self) -> Iterable[torch.Tensor]:
        return [fsdp.local_of(p.detach()) for p in self._model.parameters()]

    def held(self, state: dict[str, Any]) -> dict[str, Any]:
        return _replaced(state, lambda _, value: _local(value), lambda _, value: _local(value))

    def placed(self, state: dict[str, Any], optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        if self._layout is None:
            return state
        now = self._model.state_dict()
        trained = [p for group in optimizer.param_groups for p in group["params"]]
        return _replaced(state, lambda name, value: self._part(name, value, now.get(name)),
                         lambda index, value: self._part_like(value, trained[index]))

    def whole(self, state: dict[str, Any]) -> dict[str, Any]:
        if self._layout is None or (self._layout.shards > 1 and self._layout.node[0]):
            return state
        return _replaced(state, lambda _, value: self._gathered(value), lambda _, value: self._gathered(value))

    def _part(self, name: str, value: Any, own: Any) -> Any:
        if not fsdp.is_sharded(own):
            return value
        part = self._part_like(value, own)
        if not fsdp.is_sharded(part):
            raise ValueError(f"size mismatch for {name}: {list(value.shape)} instead of {list(own.shape)}")
        return part

    def _part_like(self, value: Any, own: Any) -> Any:
        """Returns this worker's shard of a tensor, as a sharded one, if it is divided as the parameter `own` is."""
        if not isinstance(value, torch.Tensor) or not fsdp.is_sharded(own) or value.dim() == 0:
            return value
        local = fsdp.local_of(own)
        if value.shape == own.shape:
            assert self._layout
            dim = own.placements[0].dim
            value = value.narrow(dim, *part_of(own.shape[dim], self._layout.shards, self._layout.shard)).contiguous()
        return fsdp.wrapped(value.to(local.device), own) if value.shape == local.shape else value

    def _gathered(self, value: Any) -> Any:
        """Returns a whole tensor on the CPU: of one shard after the other, each as large as the first."""
        if not fsdp.is_sharded(value):
            return value
        assert self._layout and self._collectives
        shards, dim, local = self._layout.shards, value.placements[0].dim, fsdp.local_of(value.detach())
        if shards == 1:
            return local
        most = list(local.shape)
        most[dim] = part_of(value.shape[dim], shards, 0)[1]
        padded = local.new_zeros(most)
        padded.narrow(dim, 0, local.shape[dim]).copy_(local)
        parts = self._collectives.gather(padded).cpu().view(shards, *most)
        return torch.cat(list(parts), dim).narrow(dim, 0, value.shape[dim]).contiguous()


def _group(ranks: list[int], world_size: int) -> Any:
    """Returns the process group of these ranks, whose workers all call it."""
    if len(ranks) == world_size:
        return dist.distributed_c10d._get_default_group()
    return dist.new_group(ranks, timeout=CONNECT_TIMEOUT, use_local_synchronization=True)


def _replaced(state: dict[str, Any], in_model: Callable[[str, Any], Any],
              in_optimizer: Callable[[int, Any], Any]) -> dict[str, Any]:
    """Returns a copy of a state with other values: in_model(name, value) and in_optimizer(parameter's index, value). The
    order of the calls is the same on all workers."""
    new = {**state, "model": copy.copy(state["model"])}
    for name, value in state["model"].items():
        new["model"][name] = in_model(name, value)
    if "optimizer" in state:
        entries = state["optimizer"]["state"]  # its order depends on what this worker has lived through
        entries = {index: {key: in_optimizer(index, entries[index][key]) for key in sorted(entries[index])}
                   for index in sorted(entries)}
        new["optimizer"] = {**state["optimizer"], "state": entries}
    return new


def _like(value: Any, old: Any, parameter: Any) -> Any:
    """Returns an entry of the optimizer's state for the parameter that replaces `old`."""
    if fsdp.is_sharded(value):
        return fsdp.wrapped(fsdp.local_of(value), parameter)
    if not fsdp.is_sharded(old) and isinstance(value, torch.Tensor) and value.shape == old.shape and value.dim():
        dim = parameter.placements[0].dim
        mesh = parameter.device_mesh
        begin, length = part_of(old.shape[dim], mesh.size(), mesh.get_local_rank())
        return fsdp.wrapped(value.narrow(dim, begin, length).clone().to(fsdp.local_of(parameter).device), parameter)
    return value


def _local(value: Any) -> Any:
    return fsdp.local_of(value.detach()) if fsdp.is_sharded(value) else value


def _check(model: torch.nn.Module) -> None:
    for name, parameter in model.named_parameters():
        if not fsdp.is_sharded(parameter):
            raise ValueError(f"{name} is not sharded: let `shard` also call fully_shard(model, mesh=mesh) for the whole "
                             "model, last, and without ignored_params")
        if len(parameter.placements) != 1 or not parameter.placements[0].is_shard():
            raise ValueError(f"{name} is {parameter.placements}, but must be in one shard for each worker of the node: "
                             "let `shard` pass its mesh to fully_shard, and divide the model by nothing else")
