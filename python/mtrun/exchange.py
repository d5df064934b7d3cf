"""Sums over the workers in the order of a TreePlan: each worker receives its part of all partial sums, adds them, and gives the
others the sum. It sends as many bytes as a ring does, for each partial sum."""
from __future__ import annotations

import torch
import torch.distributed as dist

from mtrun.job import Job
from mtrun.torch import begun, finish_all
from mtrun.tree_sum import STACK, TreePlan


class Exchange:
    """A sum that has started. `partials`: this worker's, rows of equal length, which the number of workers divides."""

    def __init__(self, partials: list[torch.Tensor], like: torch.Tensor, plan: TreePlan, rank: int) -> None:
        world, self._plan = len(plan.partials), plan
        self._part = like.numel() // world
        assert self._part * world == like.numel() and len(partials) == plan.partials[rank]
        if len(partials) == 1:
            sent = partials[0]
        else:
            sent = torch.stack([each.view(world, self._part) for each in partials], 1).reshape(-1) if partials else like[:0]
        self.received = torch.empty(plan.inputs * self._part, dtype=like.dtype, device=like.device)
        self.work = begun(dist.all_to_all_single(self.received, sent, [count * self._part for count in plan.partials],
                                                 world * [len(partials) * self._part], async_op=True), like)

    def combine(self, result: torch.Tensor) -> tuple[dist.Work, torch.Tensor]:
        """Adds this worker's part, and starts to gather the whole sum into `result`, which may be a partial sum. Returns what
        finish_all takes. REQUIRES: `work` has ended."""
        rows = list(self.received.view(self._plan.inputs, self._part))
        stack: list[torch.Tensor] = []
        for left, right in self._plan.additions:
            second = stack.pop() if right == STACK else rows[right]
            first = stack.pop() if left == STACK else rows[left]
            stack.append(first.add_(second))
        own = stack[0] if stack else rows[0]
        return begun(dist.all_gather_into_tensor(result, own, async_op=True), result), result


def add_in_order(job: Job, partials: list[torch.Tensor], numel: int, plan: TreePlan) -> torch.Tensor:
    """Returns the sum of all workers' partial rows of `numel` float64 numbers. Call within `interruptible`. Interrupted if the
    generation ends."""
    world = len(plan.partials)
    padded = [torch.nn.functional.pad(each, (0, -numel % world)) for each in partials]
    result = torch.empty(numel + -numel % world, dtype=torch.float64)
    exchange = Exchange(padded, result, plan, job.rank)
    finish_all(job, [(exchange.work, exchange.received)])
    finish_all(job, [exchange.combine(result)])
    return result[:numel]
