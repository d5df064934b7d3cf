"""Measures where the time of a worker's steps goes, for watching clients. Values; time is an argument."""
from __future__ import annotations

import math
from typing import Any

EVERY = 2.0  # minimum seconds between reports
LONGEST_WATCH = 60.0


class StepTimes:
    """Adds up the waits of a generation's steps. Time before its first finished step belongs to no step."""

    def __init__(self) -> None:
        self._told: float | None = None
        self.restart()

    def restart(self) -> None:
        """Starts a generation."""
        self._steps, self._begun = 0, False
        self.data = self.exchange = 0.0  # seconds waiting for input and for other workers since the last report
        self._losses: list[float] = []  # of the steps since then

    def finish(self, step: int, watched: bool, now: float, loss: float | None = None,
               learning_rate: float | None = None, **about: Any) -> dict[str, Any] | None:
        """Records that `step` steps are finished. Returns the fields of a report, means over the steps since the last
        one, if a client watches and one is due; else None. Losses and rates that are not finite are left out. `about`:
        further fields; those that are None are left out."""
        self._steps += self._begun
        if self._begun and loss is not None and math.isfinite(loss):
            self._losses.append(loss)
        means = None
        if watched and self._steps and (self._told is None or now - self._told >= EVERY):
            means = {"step": step, "data_seconds": self.data / self._steps,
                     "exchange_seconds": self.exchange / self._steps}
            if self._losses:
                means["loss"] = sum(self._losses) / len(self._losses)
            if learning_rate is not None and math.isfinite(learning_rate):
                means["learning_rate"] = learning_rate
            means |= {name: value for name, value in about.items() if value is not None}
            self._told = now
        if means or not watched or not self._begun:
            self.restart()
            self._begun = True
        return means


def watch_seconds(message: dict[str, Any]) -> float:
    """Returns for how long a client watches, by the agent's message. ValueError if it is malformed."""
    seconds = message.get("seconds")
    if not isinstance(seconds, (int, float)):
        raise ValueError(f"the agent's watch is malformed: seconds is {seconds!r}")
    return min(max(0.0, seconds), LONGEST_WATCH)
