"""The order in which a step's micro-batches are added, that of mtrun's trainers (trainers/collectives/tree_sum.h): a binary
tree over them that does not depend on the workers, so the bits of a sum do not either. Pure.

Leaf i is the contribution of micro-batch i. A node covers leaves [begin, end); its first half has one leaf more if their
number is odd. Nothing is added for leaves that a short step leaves out. A worker adds what lies within its own leaves; the few
nodes that then remain, its partial sums, are added by the owner of the result."""
from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

STACK = -1  # an addition's operand: what is on the stack


@dataclass(frozen=True)
class LeafStep:
    """What follows the contribution of one leaf, on a stack of sums: push it, then `additions` times replace the two newest
    entries by their sum. `ends_partial`: the newest entry is then a partial sum, to which nothing more is added."""
    additions: int = 0
    ends_partial: bool = False


@dataclass(frozen=True)
class TreePlan:
    """The sum of all ranks' partial sums. `filled` of `leaves` exist. `partials`: their number, by rank. `additions`: (left,
    right), numbers of partial sums in the order of ranks, or STACK; each addition pushes its sum. If both are STACK, `right` is
    newer. Empty if there is one partial sum."""
    leaves: int
    filled: int
    partials: tuple[int, ...]
    additions: tuple[tuple[int, int], ...]

    @property
    def inputs(self) -> int:
        return sum(self.partials)

    def digest(self) -> int:
        """Returns 32 bits, the same as those of the C++ plan (FNV-1a)."""
        numbers = [self.leaves, self.filled, *self.partials, *(each for addition in self.additions for each in addition)]
        h = 14695981039346656037
        for byte in b"".join(number.to_bytes(8, "little", signed=True) for number in numbers):
            h = (h ^ byte) * 1099511628211 & (1 << 64) - 1
        return (h ^ h >> 32) & 0xFFFFFFFF | 1


def _middle(begin: int, end: int) -> int:
    return begin + (end - begin + 1) // 2


def _cover(begin: int, end: int, own: range, filled: int) -> Iterator[range]:
    """Yields the largest nodes within [begin, end) of which all existing leaves are in `own`."""
    last = min(end, filled)
    if begin >= last or begin >= own.stop or last <= own.start:
        return
    if own.start <= begin and last <= own.stop:
        yield range(begin, end)
        return
    yield from _cover(begin, _middle(begin, end), own, filled)
    yield from _cover(_middle(begin, end), end, own, filled)


def partial_sums(own: range, leaves: int, filled: int) -> list[range]:
    """Returns the existing leaves of each partial sum of the worker with the leaves `own`, in order."""
    return [range(node.start, min(node.stop, filled)) for node in _cover(0, leaves, own, filled)]


def leaf_steps(own: range, leaves: int, filled: int) -> list[LeafStep]:
    """Returns the steps of a worker's existing leaves, in order."""
    steps: list[LeafStep] = []

    def walk(node: range) -> None:
        if len(node) == 1:
            steps.append(LeafStep())
            return
        middle = _middle(node.start, node.stop)
        walk(range(node.start, middle))
        if middle < filled:
            walk(range(middle, node.stop))
            steps[-1] = LeafStep(steps[-1].additions + 1)

    for node in _cover(0, leaves, own, filled):
        walk(node)
        steps[-1] = LeafStep(steps[-1].additions, ends_partial=True)
    return steps


@functools.lru_cache(64)
def plan_tree(shares: tuple[range, ...], leaves: int, filled: int) -> TreePlan:
    """Returns the TreePlan of ranks with these leaves, which together are [0, leaves) in their order. REQUIRES: 1 <= filled
    <= leaves."""
    assert 1 <= filled <= leaves, (filled, leaves)
    partials = [partial_sums(share, leaves, filled) for share in shares]
    inputs = {node: number for number, node in enumerate(node for nodes in partials for node in nodes)}
    additions: list[tuple[int, int]] = []

    def add(begin: int, end: int) -> int | None:
        """Returns the input that is the node, or STACK after the additions that push it; None if no leaf of it exists."""
        last = min(end, filled)
        if begin >= last:
            return None
        if (number := inputs.get(range(begin, last))) is not None:
            return number
        left, right = add(begin, _middle(begin, end)), add(_middle(begin, end), end)
        assert left is not None
        if right is None:
            return left
        additions.append((left, right))
        return STACK

    add(0, leaves)
    return TreePlan(leaves, filled, tuple(map(len, partials)), tuple(additions))
