"""How the workers hold the model of a Replica: here each one holds it whole."""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from mtrun.job import Interrupted, Job


class WholeModel:
    """A model of which every worker holds all tensors. `ShardedModel` is the other kind."""
    group: Any = None  # process group of the workers that hold the same tensors; None: all workers
    node: range | None = None  # ranks that must make equally many passes
    shards = 1

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model

    def connect(self, job: Job) -> None:
        """Makes the process groups of a generation; `regroup` calls it."""

    def enter(self, optimizer: torch.optim.Optimizer) -> bool:  # noqa: ARG002
        """Takes this worker's place in the generation. Returns False if its tensors are not those of any state now."""
        return True

    def begin_step(self) -> None:
        """Begins a step, and raises Interrupted if a pass outside of one was interrupted."""

    @property
    def interrupted(self) -> Interrupted | None:
        """Returns why a pass of this generation has worthless results; None if it has not."""
        return None

    def columns(self, world_size: int) -> list[list[int]]:
        """Returns the ranks that hold the same tensors, for each part of the model."""
        return [list(range(world_size))]

    def trained(self) -> list[Any]:
        """Returns what has gradients: parameters, or this worker's shards of them."""
        return [p for p in self._model.parameters() if p.requires_grad]

    def tensors(self) -> Iterable[torch.Tensor]:
        """Returns what this worker holds of the parameters."""
        return self._model.parameters()

    def held(self, state: dict[str, Any]) -> dict[str, Any]:
        """Returns a Replica's state with plain tensors: what this worker holds."""
        return state

    def placed(self, state: dict[str, Any], optimizer: torch.optim.Optimizer) -> dict[str, Any]:  # noqa: ARG002
        """Returns a state of whole tensors, or what `held` returned, in the form that load_state_dict takes."""
        return state

    def whole(self, state: dict[str, Any]) -> dict[str, Any]:
        """Returns a state with whole tensors; of a sharded model only on the node of rank 0, whose workers must all call
        it."""
        return state
