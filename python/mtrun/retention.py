"""Which checkpoints a save moves out of the way. Pure functions."""
KEPT = 2  # newest checkpoints that stay, the saved one among them


def sort_out(found, lineage, steps, alone=False):
    """Returns (steps to remove, steps to move aside) when the state after so many steps is saved. `found`: {step: Position} of the
    run's checkpoints. All until the saved one go, but for the newest: ancestors of the saved state are removed, those of other
    branches are kept aside, as is one whose name is needed. Further ones stay: the next meeting continues from them. `alone`:
    outside of a generation, where of other branches only the needed name is moved."""
    older = sorted(step for step in found if step < steps)
    older = older[:len(older) + 1 - KEPT]
    removed = [step for step in older if lineage.descends(steps, found[step])]
    others = [] if alone else [step for step in older if step not in removed]
    if steps in found and not lineage.descends(steps, found[steps]):
        others.append(steps)
    return removed, others
