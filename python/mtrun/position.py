"""The progress of a run's state, and the states it descends from (docs/formats.md, "Checkpoints"). Values only."""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Position(NamedTuple):
    """Ordered within one run by finished steps, then by the generation of the last one. All branches of a run compute
    the same function of configuration, seed and data, so the furthest state is as good as any."""
    steps: int
    generation: int

    def __str__(self) -> str:
        return f"step {self.steps} (generation {self.generation})"


class Lineage:
    """The generation that made each step of a state: [generation, first step], both ascending. The first entry also
    stands for everything before it."""

    def __init__(self, entries: Iterable[Sequence[int]] = ()) -> None:
        """Raises ValueError if malformed."""
        self._entries = [(int(generation), int(first)) for generation, first in entries]
        if any(a >= b or c > d for (a, c), (b, d) in zip(self._entries, self._entries[1:])):
            raise ValueError(f"a lineage is not ascending: {entries}")

    def entries(self) -> list[list[int]]:
        return [list(entry) for entry in self._entries]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lineage) and self._entries == other._entries

    def enter(self, generation: int, steps: int) -> Lineage:
        """Returns the lineage of this state, after `steps` finished steps, in a new generation."""
        kept = [entry for entry in self._entries if entry[1] < steps]
        return Lineage(kept + [(generation, steps if kept else 0)])

    def generation_of(self, step: int) -> int:
        """Returns the generation that made this step; 0 for steps before the first one, and if there are no entries."""
        if step < 0 or not self._entries:
            return 0
        return max((entry for entry in self._entries if entry[1] <= step), default=self._entries[0])[0]

    def position(self, steps: int) -> Position:
        """Returns the position of this state after `steps` steps."""
        return Position(steps, self.generation_of(steps - 1))

    def descends(self, steps: int, ancestor: Position) -> bool:
        """Returns whether this state, after `steps` steps, is at `ancestor` or has passed through it."""
        same = ancestor.steps == 0 or self.generation_of(ancestor.steps - 1) == ancestor.generation
        return same and ancestor.steps <= steps

    def start(self, generation: int, begins: bool = False) -> tuple[int, int] | None:
        """Returns (first step, generation that made the step before it) of a generation. None if unknown: the first
        entry may stand for several, unless it `begins` now."""
        for number, first in self._entries if begins else self._entries[1:]:
            if number == generation:
                return first, self.generation_of(first - 1)
        return None
