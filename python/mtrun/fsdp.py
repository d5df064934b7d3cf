"""What PyTorch's fully_shard has no public function for: to take a sharded model apart, and to shard it again with
other process groups. Of PyTorch 2.11."""
from __future__ import annotations

from typing import Any

import torch
from torch.distributed._composable.contract import REGISTRY_KEY, STATE_KEY
from torch.distributed._composable_state import _module_state_mapping
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta

from mtrun.shard_collectives import Gather, Scatter, ShardCollectives

ORIGINAL_CLASS = 2  # of the method resolution order: [FSDPLinear, FSDPModule, Linear, ...]


def is_sharded(tensor: object) -> bool:
    return isinstance(tensor, DTensor)


def local_of(tensor: torch.Tensor) -> torch.Tensor:
    """Returns this worker's shard of a tensor, or a tensor that is not sharded itself; not a copy."""
    return tensor._local_tensor if isinstance(tensor, DTensor) else tensor


def wrapped(local: torch.Tensor, like: DTensor) -> DTensor:
    """Returns the sharded tensor of which `local` is this worker's shard."""
    meta = TensorMeta(like.shape, like.stride(), local.dtype)
    return DTensor(local, DTensorSpec(like.device_mesh, like.placements, tensor_meta=meta), requires_grad=False)


def modules_of(model: torch.nn.Module) -> list[Any]:
    """Returns the modules to which fully_shard was applied."""
    return [module for module in model.modules() if isinstance(module, FSDPModule)]


def connect(model: torch.nn.Module, collectives: ShardCollectives) -> None:
    """Lets all modules use these collectives, and sum gradients instead of averaging them."""
    for module in modules_of(model):
        module.set_custom_all_gather(Gather(collectives))
        module.set_custom_reduce_scatter(Scatter(collectives))
        module.set_gradient_divide_factor(1.0)
        module.set_force_sum_reduction_for_comms(True)


def reshard(model: torch.nn.Module) -> None:
    """Frees whole parameters that a forward pass without a backward pass left behind."""
    for group in _groups(model):
        group._to_sharded()


def take_apart(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Undoes fully_shard, whatever a pass was doing. Returns this worker's shards by name; the model has parameters
    without memory instead."""
    reshard(model)
    shards = {name: local_of(p.detach()) for name, p in model.named_parameters(remove_duplicate=False)
              if is_sharded(p)}
    for group in _groups(model):
        for part in group.fsdp_params:
            part._post_load_hook_handle.remove()
            part._setattr_on_modules(_without_memory(part.sharded_param))
        for handle in (*group._module_to_pre_save_state_dict_hook_handle.values(),
                       *group._module_to_pre_load_state_dict_hook_handle.values()):
            handle.remove()
    for module in modules_of(model):
        state = module._get_fsdp_state()
        state._pre_forward_hook_handle.remove()
        state._post_forward_hook_handle.remove()
        module.__dict__[REGISTRY_KEY].pop("fully_shard")
        states = module.__dict__[STATE_KEY]
        for key in [key for key, each in states.items() if each is state]:
            states.pop(key)
        _module_state_mapping.pop(module, None)
        module.__class__ = type(module).__mro__[ORIGINAL_CLASS]
    return shards


def put_back(model: torch.nn.Module, shards: dict[str, torch.Tensor] | None) -> None:
    """Gives a sharded model, whose parameters have no memory, these shards; None: zeros."""
    modules = {id(module): f"{name}." if name else "" for name, module in model.named_modules()}
    for group in _groups(model):
        for part in group.fsdp_params:
            old, place = part.sharded_param, part._module_info
            local = shards[modules[id(place.module)] + place.param_name] if shards else torch.zeros(
                part.sharded_size, dtype=old.dtype, device="cpu" if part.offload_to_cpu else part.device)
            new = torch.nn.Parameter(part.to_sharded_dtensor(local), requires_grad=old.requires_grad)
            part._setattr_on_modules(new)
            part.reset_sharded_param()


def _without_memory(parameter: Any) -> torch.nn.Parameter:
    empty = torch.empty(parameter.shape, dtype=parameter.dtype, device="meta")
    return torch.nn.Parameter(empty, requires_grad=parameter.requires_grad)


def _groups(model: torch.nn.Module) -> list[Any]:
    """Returns the groups of parameters that are gathered together."""
    states = {id(state): state for state in (module._get_fsdp_state() for module in modules_of(model))}
    return [state._fsdp_param_group for state in states.values() if state._fsdp_param_group]
