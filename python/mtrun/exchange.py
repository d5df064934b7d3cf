"""Sums over the workers in the order of a TreePlan: each worker receives its part of all partial sums, adds them, and gives the
others the sum. It sends as many bytes as a ring does, for each partial sum, from where they are and to where they belong."""
from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from mtrun.job import Job
from mtrun.torch import begun, finish_all
from mtrun.tree_sum import STACK, TreePlan


class Exchange:
    """A sum of rows, and the memory that it needs, which is kept for later ones."""

    def __init__(self) -> None:
        self._room: torch.Tensor | None = None

    def start(self, partials: list[torch.Tensor], like: torch.Tensor, plan: TreePlan, rank: int) -> list[tuple[Any, torch.Tensor]]:
        """Starts to send this worker's `partials`, rows of the length of `like`. Returns what finish_all takes."""
        world, part = len(plan.partials), -(-like.numel() // len(plan.partials))
        assert len(partials) == plan.partials[rank]
        self._plan, self._rank = plan, rank
        self._sizes = [max(0, min(part, like.numel() - each * part)) for each in range(world)]
        own, given, rows = self._sizes[rank], list(self._sizes), {}
        if rank in (0, world - 1):  # the others' parts are contiguous without this worker's, which stays where it is
            given[rank] = 0
            rows = {(rank, number): row.split(self._sizes)[rank] for number, row in enumerate(partials)}
        room, works = self._room_for((plan.inputs - len(rows)) * own, like), []
        for number in range(max(plan.partials)):
            sources = [each for each, count in enumerate(plan.partials) if number < count and (each, number) not in rows]
            received, room = room.split([len(sources) * own, len(room) - len(sources) * own])
            rows.update({(each, number): row for each, row in zip(sources, received.view(len(sources), own))})
            sends = number < len(partials)
            sent = partials[number].narrow(0, part if rank == 0 else 0, sum(given)) if sends else like[:0]
            work = dist.all_to_all_single(received, sent, [own * (each in sources) for each in range(world)],
                                          given if sends else world * [0], async_op=True)
            works.append((begun(work, like), received))
        self._rows = [rows[key] for key in sorted(rows)]
        return works

    def _room_for(self, numel: int, like: torch.Tensor) -> torch.Tensor:
        if self._room is None or self._room.numel() < numel:
            self._room = torch.empty(numel, dtype=like.dtype, device=like.device)
        return self._room[:numel]

    def combine(self, result: torch.Tensor) -> list[tuple[Any, torch.Tensor]]:
        """Adds this worker's part, and starts to gather the whole sum into `result`, which may be a partial sum. Returns what
        finish_all takes. REQUIRES: the works of `start` have ended; the plan has additions."""
        parts, stack = result.split(self._sizes), list[torch.Tensor]()
        for to_go, (left, right) in enumerate(self._plan.additions, 1 - len(self._plan.additions)):
            second = stack.pop() if right == STACK else self._rows[right]
            first = stack.pop() if left == STACK else self._rows[left]
            stack.append(torch.add(first, second, out=first if to_go else parts[self._rank]))
        return [(begun(dist.broadcast(part, rank, async_op=True), result), result)
                for rank, part in enumerate(parts) if len(part)]


def add_in_order(job: Job, partials: list[torch.Tensor], numel: int, plan: TreePlan) -> torch.Tensor:
    """Returns the sum of all workers' partial rows of `numel` float64 numbers. Call within `interruptible`. Interrupted if the
    generation ends."""
    exchange, result = Exchange(), torch.empty(numel, dtype=torch.float64)
    finish_all(job, exchange.start(partials, result, plan, job.rank))
    finish_all(job, exchange.combine(result))
    return result
