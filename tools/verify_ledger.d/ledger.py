"""Reads ledger.jsonl: which lines count, in one file and over the folders of a run's nodes."""
import hashlib
import json
import os

START = "0" * 64


def whole(entry, key, least):
    return type(entry.get(key)) is int and entry[key] >= least


def is_head(entry):
    keys = [("ledger", 1), ("seed", 0), ("size", 1), ("global_batch", 1), ("micro_batch", 1)]
    return all(whole(entry, key, least) for key, least in keys) and isinstance(entry.get("run"), str) and has_order(entry)


def has_order(entry):
    """Streams need what they are made of, and it has to be all samples."""
    shards = entry.get("shards")
    if entry.get("shuffle") in (True, False):
        return True
    return (entry.get("shuffle") in ("streams", "fixed_streams") and whole(entry, "window", 1) and isinstance(shards, list)
            and all(type(count) is int and count >= 0 for count in shards) and sum(shards) == entry["size"])


class Ledger:
    """One file: its head, the lines that count, and what is wrong with it."""

    def __init__(self, folder):
        self.folder, self.path = folder, os.path.join(folder, "ledger.jsonl")
        self.head, self.steps, self.began, self.saved = None, {}, {}, {}
        self.named = {}  # all weights that it has named: {(generation, steps): weights}
        self.superseded = self.rewinds = self.unfinished = self.late = 0
        self.generation = (0, 0)  # the highest so far, after how often it began again
        self.sums = False         # whether a line has said what was gathered
        self.problems, self.counted = [], START
        self.previous = {START}  # what the next line's "prev" may be: the line before it, or the last one that counts
        self.lines = set()       # all that count
        with open(self.path, "rb") as file:
            for number, line in enumerate(file.read().split(b"\n"), 1):
                if line:
                    digest = hashlib.sha256(line).hexdigest()
                    self.previous = {digest} if self.read(number, line) else {digest, self.counted}

    def wrong(self, number, what):
        self.problems.append(f"{self.path}:{number}: {what}")

    def read(self, number, line):
        """False: it does not count."""
        try:
            entry = json.loads(line)
        except ValueError:
            entry = None
        if not isinstance(entry, dict):
            self.unfinished += 1  # what a dying writer left; the next line's digest covers it
            return False
        if "ledger" not in entry and whole(entry, "generation", 1) and self.is_late(entry):
            self.late += 1
            return False
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
            self.count(number, {**entry, "of": (self.generation[0], entry["generation"])})
        return True

    def has_met_late_lines(self, entry):
        """The first line of a higher generation: while its writer began, one that did not know that its own was over may have
        added lines behind the last one that this one had seen. They are there, so none is missing."""
        return whole(entry, "generation", 1) and entry["generation"] > self.generation[1] and entry.get("prev") in self.lines

    def count(self, number, entry):
        """A line with its generation that is not over. "of": what orders generations."""
        if whole(entry, "rewind", 0):
            self.rewinds += 1
            self.enter(entry["of"], entry["rewind"])
            self.take_back(entry["rewind"])
        elif whole(entry, "checkpoint", 0):
            self.saved[entry["checkpoint"]] = (entry["of"], entry.get("weights"))
            self.named[(entry["of"], entry["checkpoint"])] = entry.get("weights")
        elif "step" in entry:
            self.add(number, entry)

    @staticmethod
    def is_step(entry):
        keys = [("step", 0), ("epoch", 0), ("generation", 1), ("world", 1)]
        return (all(whole(entry, key, least) for key, least in keys) and isinstance(entry.get("ids"), str)
                and entry.get("status") in ("applied", "skipped"))

    def is_late(self, entry):
        """A line of a generation behind the first line of a higher one: its writer did not know that it was over."""
        again, highest = self.generation
        if entry["generation"] >= highest:
            return False
        # Earlier releases numbered generations from 1 again when nobody was left who knew them, and took steps back then.
        if "rewind" in entry and self.head and self.head["ledger"] == 1:
            self.generation = (again + 1, entry["generation"])
            return False
        return True

    def take_back(self, first):
        for step in [s for s in self.steps if s >= first]:
            self.superseded += 1
            del self.steps[step]
        for step in [s for s in self.saved if s > first]:
            del self.saved[step]

    def enter(self, generation, step):
        """A higher generation takes back what others did from its first step on."""
        if generation > self.generation:
            self.take_back(step)
        self.generation = generation
        self.began[generation] = min(step, self.began.get(generation, step))

    def add(self, number, entry):
        self.enter(entry["of"], entry["step"])
        if entry["step"] in self.steps:
            self.wrong(number, f"step {entry['step']} stands twice in generation {entry['generation']}: it has two writers")
        if "hash" not in entry and (self.sums or (self.head and self.head["ledger"] > 1)):
            self.wrong(number, f"step {entry['step']} does not say what the workers gathered")
        self.sums = self.sums or "hash" in entry
        self.steps[entry["step"]] = entry


def content(entry):
    return {key: value for key, value in entry.items() if key not in ("prev", "of")}


def saved_weights(ledgers, step, generation):
    """What the ledgers say of the checkpoint of so many finished steps, unless a higher generation took back one of them. One that
    a node which was away then still has, of the `generation` that made those (None: its checkpoint does not say), has the weights
    that this one named."""
    began = [each for ledger in ledgers for each in ledger.began.items()]

    def is_over(of):
        return any(later > of and first < step for later, first in began)

    left = (0, generation)
    if generation is not None and is_over(left):
        return {ledger.named[(left, step)] for ledger in ledgers if (left, step) in ledger.named}
    said = [ledger.saved[step] for ledger in ledgers if step in ledger.saved]
    return {weights for of, weights in said if not is_over(of)}


def merge(ledgers):
    """The lines that count over the nodes' files, how many they supersede, and what is wrong."""
    steps, superseded, problems = {}, 0, []
    for generation in sorted({g for ledger in ledgers for g in ledger.began}):
        first = min(ledger.began[generation] for ledger in ledgers if generation in ledger.began)
        for step in [s for s in steps if s >= first]:
            superseded += 1
            del steps[step]
        lines = [entry for ledger in ledgers for entry in ledger.steps.values() if entry["of"] == generation]
        worlds = sorted({entry["world"] for entry in lines})
        if len(worlds) > 1:
            problems.append(f"generation {generation[1]} has two writers: world sizes {', '.join(map(str, worlds))}")
        # A new writer repeats what its predecessor may not have recorded: word for word, or it is another's.
        other = [e["step"] for e in lines if content(steps.setdefault(e["step"], e)) != content(e)]
        if other:
            problems.append(f"generation {generation[1]} has two writers: the folders differ in {len(other)} of its steps, the "
                            f"first is {min(other)}")
    return steps, superseded, problems
