"""Where the time of a worker's steps goes, for people who watch. Values; time is an argument."""

EVERY = 2.0  # seconds, told at most so often
LONGEST_WATCH = 60.0


class StepTimes:
    """Adds up what a generation's steps wait for. What precedes its first finished step belongs to no step."""

    def __init__(self):
        self._told = None
        self.restart()

    def restart(self):
        """A generation begins."""
        self._steps, self._begun = 0, False
        self.data = self.exchange = 0.0  # seconds since the means were told last: for input, for other workers

    def finish(self, step, watched, now):
        """`step` steps are finished. While somebody watches: the fields of what to tell now, the means of the steps since that
        was done last; else None."""
        self._steps += self._begun
        means = None
        if watched and self._steps and (self._told is None or now - self._told >= EVERY):
            means = {"step": step, "data_seconds": self.data / self._steps,
                     "exchange_seconds": self.exchange / self._steps}
            self._told = now
        if means or not watched or not self._begun:
            self.restart()
            self._begun = True
        return means


def watch_seconds(message):
    """For how long somebody watches, by the agent's message. ValueError where that is malformed."""
    seconds = message.get("seconds")
    if not isinstance(seconds, (int, float)):
        raise ValueError(f"the agent's watch is malformed: seconds is {seconds!r}")
    return min(max(0.0, seconds), LONGEST_WATCH)
