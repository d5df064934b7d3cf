"""The collectives of fully_shard among the workers of a node, which end with the generation."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.fsdp._fully_shard._fsdp_api import AllGather, ReduceScatter

from mtrun.job import Interrupted, Job
from mtrun.torch import interruptible
from mtrun.waits import await_work, is_gloo, note_begun


class ShardCollectives:
    """They run within the program's own forward pass, where an exception would end the program. So they return zeros
    once the generation has ended, and `error` is the reason: all results of the pass are worthless then."""

    def __init__(self, job: Job, group: Any) -> None:
        self._job, self._group = job, group
        self.error: Interrupted | None = None

    def run(self, begin: Callable[[Any], dist.Work], output: torch.Tensor) -> None:
        """Fills `output` by the collective that begin(group) starts."""
        try:
            if self.error is None:
                self.finish(begin, output)
        except Interrupted as error:
            self.error = error.with_traceback(None)
        if self.error:
            output.zero_()

    def finish(self, begin: Callable[[Any], dist.Work], output: torch.Tensor) -> None:
        """As run(), but raises Interrupted."""
        with interruptible(self._job):
            work = begin(self._group)
            if is_gloo(output.device):
                note_begun(work)
                await_work(self._job, work)
            else:
                work.wait()

    def gather(self, part: torch.Tensor) -> torch.Tensor:
        """Returns the parts of all workers of the node, which have equal sizes, in one row. Interrupted if the
        generation ends."""
        row = torch.empty(self._group.size() * part.numel(), dtype=part.dtype, device=part.device)
        self.finish(lambda group: dist.all_gather_into_tensor(row, part.reshape(-1), group, async_op=True), row)
        if self._job.over():  # NCCL reports nothing
            raise Interrupted("the generation ended while shards were gathered")
        return row


class _Allocates:
    def __init__(self, collectives: ShardCollectives) -> None:
        self._collectives = collectives

    def allocate(self, size: Any, *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        return torch.empty(*size, dtype=dtype, device=device)


class Gather(_Allocates, AllGather):
    """Gathers parameters, for FSDPModule.set_custom_all_gather."""

    def __call__(self, output_tensor: torch.Tensor, input_tensor: torch.Tensor, group: Any,  # noqa: ARG002
                 async_op: bool = False) -> None:  # noqa: ARG002
        self._collectives.run(
            lambda group: dist.all_gather_into_tensor(output_tensor, input_tensor, group, async_op=True), output_tensor)


class Scatter(_Allocates, ReduceScatter):
    """Sums gradients, for FSDPModule.set_custom_reduce_scatter."""

    def __call__(self, output_tensor: torch.Tensor, input_tensor: torch.Tensor, group: Any, op: Any = None,  # noqa: ARG002
                 async_op: bool = False) -> None:  # noqa: ARG002
        if not is_gloo(output_tensor.device):
            self._collectives.run(lambda group: dist.reduce_scatter_tensor(
                output_tensor, input_tensor, group=group, async_op=True), output_tensor)
            return
        # Gloo's own (of PyTorch 2.11) does the same, but copies the result in wait(), and never counts as completed.
        self._collectives.run(lambda group: dist.all_reduce(input_tensor, group=group, async_op=True), input_tensor)
        output_tensor.copy_(input_tensor.view(group.size(), -1)[group.rank()])
