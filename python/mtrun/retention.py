"""Decides which checkpoints a save moves out of the way. Pure functions."""
from __future__ import annotations

from mtrun.position import Lineage, Position

KEPT = 2  # newest checkpoints that are kept, including the saved one


def sort_out(found: dict[int, Position], lineage: Lineage, steps: int, alone: bool = False) -> tuple[list[int], list[int]]:
    """Returns (steps to remove, steps to move aside) when the state after `steps` steps is saved. `found`: {step:
    Position} of the run's checkpoints. Of those up to the saved one only the newest stay: older ancestors are removed;
    those of other branches are moved aside, as is one whose name is needed. Further ones stay, because the next meeting
    continues from them. `alone`: outside of a generation; then of other branches only a needed name is moved."""
    older = sorted(step for step in found if step < steps)
    older = older[:len(older) + 1 - KEPT]
    removed = [step for step in older if lineage.descends(steps, found[step])]
    others = [] if alone else [step for step in older if step not in removed]
    if steps in found and not lineage.descends(steps, found[steps]):
        others.append(steps)
    return removed, others
