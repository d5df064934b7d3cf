"""How far a state of a run is, and which states it descends from (docs/formats.md, "Checkpoints"). Values only."""
from typing import NamedTuple


class Position(NamedTuple):
    """Compared within one run by the number of finished steps, then by the generation that made the last one: all branches of a
    run compute the same function of configuration, seed and data, so the furthest state is as good as any."""
    steps: int
    generation: int

    def __str__(self):
        return f"step {self.steps} (generation {self.generation})"


class Lineage:
    """Which generation made each step of a state: [generation, first step], both ascending. The first entry also stands for
    everything before it."""

    def __init__(self, entries=()):
        """ValueError if malformed."""
        self._entries = [(int(generation), int(first)) for generation, first in entries]
        if any(a >= b or c > d for (a, c), (b, d) in zip(self._entries, self._entries[1:])):
            raise ValueError(f"a lineage does not ascend: {entries}")

    def entries(self):
        return [list(entry) for entry in self._entries]

    def __eq__(self, other):
        return self._entries == other._entries

    def enter(self, generation, steps):
        """The lineage of this state, of so many finished steps, in a new generation."""
        kept = [entry for entry in self._entries if entry[1] < steps]
        return Lineage(kept + [(generation, steps if kept else 0)])

    def generation_of(self, step):
        """That made this step; 0 for steps before the first one, and without entries."""
        if step < 0 or not self._entries:
            return 0
        return max((entry for entry in self._entries if entry[1] <= step), default=self._entries[0])[0]

    def position(self, steps):
        """Of this state after so many steps."""
        return Position(steps, self.generation_of(steps - 1))

    def descends(self, steps, ancestor):
        """Whether this state, of so many steps, is at `ancestor` or was there before."""
        same = ancestor.steps == 0 or self.generation_of(ancestor.steps - 1) == ancestor.generation
        return same and ancestor.steps <= steps

    def start(self, generation, begins=False):
        """(first step, generation that made the step before it) of a generation in it. None if that is not known: the first
        entry may stand for several, unless it `begins` now."""
        for number, first in self._entries if begins else self._entries[1:]:
            if number == generation:
                return first, self.generation_of(first - 1)
        return None
