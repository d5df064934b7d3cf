"""Reads ledger.jsonl and determines which lines count, in one file and over the folders of a run's nodes."""
import hashlib
import json
import math
import os

START = "0" * 64


def file_digest(path):
    found = hashlib.sha256()
    with open(path, "rb") as file:
        while part := file.read(1 << 20):
            found.update(part)
    return found.hexdigest()


def whole(entry, key, least):
    return type(entry.get(key)) is int and entry[key] >= least


def is_head(entry):
    keys = [("ledger", 1), ("seed", 0), ("size", 1), ("global_batch", 1), ("micro_batch", 1)]
    return all(whole(entry, key, least) for key, least in keys) and isinstance(entry.get("run"), str) and has_order(entry)


def has_order(entry):
    """Returns whether the order is complete: streams need their parameters, and must cover all samples."""
    shards = entry.get("shards")
    if entry.get("shuffle") in (True, False):
        return True
    return (entry.get("shuffle") in ("streams", "fixed_streams") and whole(entry, "window", 1) and isinstance(shards, list)
            and all(type(count) is int and count >= 0 for count in shards) and sum(shards) == entry["size"])


class Ledger:
    """One file: its head, the lines of each generation, and its errors."""

    def __init__(self, folder):
        self.folder, self.path = folder, os.path.join(folder, "ledger.jsonl")
        self.head, self.generations = None, {}
        self.rewinds = self.unfinished = self.late = 0
        self.generation = (0, 0)  # highest so far, after the number of restarts of the numbering (releases before 2)
        self.repeated = None      # generation and step from which the last writer continues, before its first step
        self.sums = False         # whether a line has recorded the workers' sums
        self.problems, self.counted = [], START
        self.previous = {START}  # allowed values of the next line's "prev": the line before it, or the last one that is
                                 # not late
        self.lines = set()       # all lines that are not late
        with open(self.path, "rb") as file:
            for number, line in enumerate(file.read().split(b"\n"), 1):
                if line:
                    digest = hashlib.sha256(line).hexdigest()
                    self.previous = {digest} if self.read(number, line) else {digest, self.counted}

    def wrong(self, number, what):
        self.problems.append(f"{self.path}:{number}: {what}")

    def read(self, number, line):
        """Returns False if the line is late, or not a line."""
        try:
            entry = json.loads(line)
        except ValueError:
            entry = None
        if not isinstance(entry, dict):
            self.unfinished += 1  # left by a dying writer; the next line's digest covers it
            return False
        earlier = "ledger" not in entry and whole(entry, "generation", 1) and self.is_earlier(entry)
        late = earlier and not self.repeats(entry)
        self.late += late
        if not late:
            if entry.get("prev") not in self.previous and not self.has_met_late_lines(entry):
                self.wrong(number, "the chain is broken: a line before it is missing or changed")
            self.counted = hashlib.sha256(line).hexdigest()
            self.lines.add(self.counted)
        if "ledger" in entry:
            if self.head or not is_head(entry):
                self.wrong(number, "a second first line" if self.head else "the first line is malformed")
            elif not self.head:
                self.head = entry
        elif not whole(entry, "generation", 1) or ("step" in entry and not self.is_step(entry)):
            self.wrong(number, f"malformed: {line.decode(errors='replace')[:200]}")
        else:
            self.count(number, entry, earlier)
        return not late

    def has_met_late_lines(self, entry):
        """Returns whether this first line of a higher generation follows a line in the file. A writer that did not know
        that its generation was over can add lines while the new one starts; they exist, so none is missing."""
        return whole(entry, "generation", 1) and entry["generation"] > self.generation[1] and entry.get("prev") in self.lines

    def count(self, number, entry, earlier):
        """`earlier`: the line's generation is below the highest so far; of such lines only steps count."""
        of = (self.generation[0], entry["generation"])
        if not earlier:
            self.generation, self.repeated = max(self.generation, of), None
        generation = self.generations.setdefault(of, Generation(of))
        if "step" in entry:
            if not generation.add(entry) and not earlier:
                self.wrong(number, f"step {entry['step']} stands twice in generation {entry['generation']}: it has two writers")
            if "hash" not in entry and (self.sums or (self.head and self.head["ledger"] > 1)):
                self.wrong(number, f"step {entry['step']} does not say what the workers gathered")
            self.sums = self.sums or "hash" in entry
        elif earlier:
            return
        elif whole(entry, "rewind", 0):
            self.rewinds += 1
            if whole(entry, "of", 0) and entry["of"] >= entry["generation"]:
                self.wrong(number, f"generation {entry['generation']} continues generation {entry['of']}, which is not lower")
            generation.rewind(entry["rewind"], entry.get("of"))
            if whole(entry, "of", 1):
                self.repeated = (entry["of"], entry["rewind"])
        elif whole(entry, "checkpoint", 0):
            generation.saved[entry["checkpoint"]] = entry.get("weights")

    @staticmethod
    def is_step(entry):
        keys = [("step", 0), ("epoch", 0), ("generation", 1), ("world", 1)]
        return (all(whole(entry, key, least) for key, least in keys) and isinstance(entry.get("ids"), str)
                and entry.get("status") in ("applied", "skipped"))

    def is_earlier(self, entry):
        """Returns whether a line of a generation follows the first line of a higher one."""
        again, highest = self.generation
        if entry["generation"] >= highest:
            return False
        # Earlier releases restarted at generation 1 if all records of the number were lost, and took steps back then.
        if "rewind" in entry and self.head and self.head["ledger"] == 1:
            self.generation = (again + 1, entry["generation"])
            return False
        return True

    def repeats(self, entry):
        """Returns whether a writer, which has recorded its starting step and generation, repeats remembered earlier
        steps. Any other earlier line is late: its writer did not know that its generation was over."""
        return (self.repeated is not None and whole(entry, "step", 0) and entry["generation"] <= self.repeated[0]
                and entry["step"] < self.repeated[1])


class Generation:
    """The lines of one generation."""

    def __init__(self, of):
        self.of, self.parent, self.begins = of, None, None
        self.steps, self.saved = {}, {}

    def begin(self, step):
        self.begins = step if self.begins is None else min(step, self.begins)

    def rewind(self, step, parent):
        self.begin(step)
        if type(parent) is int and parent < self.of[1]:
            self.parent = (self.of[0], parent)
        for other in [s for s in self.steps if s >= step]:  # within the generation itself
            del self.steps[other]

    def add(self, entry):
        """Returns False if the step is there already."""
        self.begin(entry["step"])
        return self.steps.setdefault(entry["step"], entry) is entry

    def join(self, other):
        """Adds another file's lines of the same generation."""
        if other.begins is not None:
            self.begin(other.begins)
        self.parent = other.parent or self.parent
        self.steps.update(other.steps)
        self.saved.update(other.saved)

    def end(self):
        return max(self.steps) + 1 if self.steps else self.begins or 0


def content(entry):
    return {key: value for key, value in entry.items() if key != "prev"}


class Run:
    """The lines of all nodes' files, and which of them count: the walk of docs/formats.md, "Which lines count"."""

    def __init__(self, ledgers):
        self.generations = {}
        for ledger in ledgers:
            for of, generation in ledger.generations.items():
                self.generations.setdefault(of, Generation(of)).join(generation)
        self.path = self.walk(ledgers)
        self.steps, self.problems = {}, []
        for of, first, end in reversed(self.path):
            lines = [entry for ledger in ledgers if of in ledger.generations
                     for step, entry in ledger.generations[of].steps.items() if first <= step < end]
            self.problems += self.take(of[1], lines)
        counted = {of: (first, end) for of, first, end in self.path}
        self.superseded = sum(not bounds or not bounds[0] <= step < bounds[1] for ledger in ledgers
                              for of, each in ledger.generations.items() for bounds in [counted.get(of)] for step in each.steps)

    def take(self, generation, lines):
        """Takes the counting lines of one generation from all files; yields their differences. A new writer repeats
        lines that its predecessor may not have recorded word for word; otherwise they are another run's."""
        worlds = sorted({entry["world"] for entry in lines})
        other = [e["step"] for e in lines if content(self.steps.setdefault(e["step"], e)) != content(e)]
        if len(worlds) > 1:
            yield f"generation {generation} has two writers: world sizes {', '.join(map(str, worlds))}"
        if other:
            yield (f"generation {generation} has two writers: the folders differ in {len(other)} of its steps, the first is "
                   f"{min(other)}")

    def walk(self, ledgers):
        """Walks down from the last generation: the highest of the file whose branch reaches the furthest step."""
        last = {ledger.generation for ledger in ledgers if ledger.generation in self.generations}
        return self.branch(max(last, key=lambda of: (self.generations[of].end(), of), default=None))

    def branch(self, at):
        """Returns [(generation, its first step, first step of the next one)] from a generation down."""
        path, until = [], math.inf
        while at is not None:
            generation = self.generations[at]
            first = until if generation.begins is None else min(until, generation.begins)
            path.append((at, first, until))
            until, bound = first, generation.parent or at
            at = max((of for of in self.generations if of < at and of <= bound), default=None)
        return path

    def saved_weights(self, step, made_in):
        """Returns the weights recorded for the checkpoint of `step` steps whose last step generation `made_in` made
        (None: unknown; then those on the path count)."""
        found = set()
        for at, generation in self.generations.items():
            if step not in generation.saved:
                continue
            makers = {of[1] for of, first, until in self.branch(at) if first < step <= until}
            on_path = any(of == at and step <= until for of, _, until in self.path)
            if made_in in makers or (made_in is None and on_path):
                found.add(generation.saved[step])
        return found
