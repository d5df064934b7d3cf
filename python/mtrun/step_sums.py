"""How one worker's contributions to a step, and then those of all workers, are added."""
from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass

from mtrun.sampler import share_of
from mtrun.tree_sum import LeafStep, TreePlan, leaf_steps, plan_tree


@dataclass(frozen=True)
class StepSums:
    """`steps`: of this worker's passes, in order. `plan`: of all workers' partial sums; None: each has at most one, and they
    are added in any order."""
    steps: tuple[LeafStep, ...]
    plan: TreePlan | None

    @property
    def by_exchange(self) -> bool:
        """Returns whether the order of additions between workers matters: two terms commute."""
        return self.plan is not None and self.plan.inputs > 2


@functools.lru_cache(64)
def in_tree_order(rank: int, world_size: int, leaves: int, filled: int) -> StepSums:
    """Returns the sums of worker `rank` in a step of which the first `filled` of `leaves` micro-batches exist."""
    shares = tuple(share_of(each, world_size, leaves) for each in range(world_size))
    return StepSums(tuple(leaf_steps(shares[rank], leaves, filled)), plan_tree(shares, leaves, filled))


def in_sequence(passes: int) -> StepSums:
    """Returns the sums of a worker that adds its passes one after the other."""
    return StepSums(tuple(LeafStep(int(place > 0), place == passes - 1) for place in range(passes)), None)


def exact_sum(values: Iterable[float]) -> float:
    """Returns the exact sum, rounded once, so that the order of the values does not matter. With infinite values, what IEEE
    754 gives."""
    values = list(values)
    try:
        return math.fsum(values) + 0.0
    except (OverflowError, ValueError):  # beyond a float's range, or infinities of both signs
        return sum(sorted(values, key=lambda value: (math.isnan(value), value)))
