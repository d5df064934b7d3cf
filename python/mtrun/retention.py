"""Which checkpoints a save or the beginning of a generation moves out of the way. Pure functions."""
KEPT = 2  # newest ancestors that stay, the saved one among them


def further(found, lineage, steps, generation):
    """Of `found` ({step: (Position, generation in which it was saved)} of this run): the steps to move aside when `generation`
    begins after so many steps. Others of this or a later generation have their own."""
    return sorted(step for step, (position, saved_in) in found.items()
                  if step > steps and saved_in < generation and not lineage.descends(steps, position))


def sort_out(found, lineage, steps, generation, alone=False):
    """(to remove, to move aside) when the state after so many steps is saved: ancestors go but the newest; what another branch
    left is kept aside. `alone`: outside of a generation, where nothing is decided about others' but the name that is needed."""
    ancestors = sorted(step for step, (position, _) in found.items() if step < steps and lineage.descends(steps, position))
    others = sorted(step for step, (position, saved_in) in found.items()
                    if not lineage.descends(steps, position) and (step == steps or (saved_in < generation and not alone)))
    return ancestors[:len(ancestors) + 1 - KEPT], others
