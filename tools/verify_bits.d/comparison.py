"""Compares two runs: the losses of their steps, evaluations, checkpoints and weights."""
import functools
import json
import os
import re
import struct

import ledger as files
import tensors

MOST_SHOWN = 10
# Of the first line: a difference makes two runs different ones.
OF_THE_RUN = {"seed": "seed", "size": "number of samples", "global_batch": "--global_batch", "micro_batch": "--batch_size",
              "shuffle": "--shuffle", "window": "--shuffle_window", "data": "data set"}
WITHOUT_TIME = ("epoch", "steps", "train_loss", "train_accuracy", "test_loss", "test_accuracy", "validation", "test_top5")


class Incomparable(Exception):
    """Why two runs cannot be compared."""


def bits(value):
    """Returns a loss as its 64 bits, or the text if it is no number."""
    try:
        return struct.pack("<d", float(value))
    except (TypeError, ValueError, OverflowError):
        return repr(value)


class Folder:
    """A run's folder: its steps that count, its checkpoints and its last weights."""

    def __init__(self, path, name=None):
        self.path, self.name = path, name or path
        if not os.path.isfile(os.path.join(path, "ledger.jsonl")):
            raise Incomparable(f"there is no {os.path.join(path, 'ledger.jsonl')}: give the folders of two runs, or two files of weights")
        own = files.Ledger(path)
        if own.head is None:
            raise Incomparable(f"{own.path} has no first line that names the run")
        self.head, self.steps = own.head, files.Run([own]).steps
        self.end = max(self.steps, default=-1) + 1

    def checkpoints(self):
        """Returns the complete checkpoints by their steps."""
        found = {}
        for name in os.listdir(self.path):
            if re.fullmatch(r"step_[1-9]\d*", name) and os.path.isfile(os.path.join(self.path, name, "DONE")):
                found[int(name[5:])] = os.path.join(self.path, name)
        return found

    @functools.cached_property
    def progress(self):
        """Returns the progress of the newest checkpoint; {} without one."""
        saved = self.checkpoints()
        try:
            with open(os.path.join(saved[max(saved)], "state.json"), encoding="utf-8") as file:
                return json.load(file)["progress"]
        except (OSError, ValueError, KeyError, TypeError):
            return {}

    def evaluations(self):
        """Returns what the newest checkpoint says of each epoch, by the epoch."""
        try:
            return {entry["epoch"]: {name: bits(entry[name]) for name in WITHOUT_TIME if name in entry} for entry in self.progress["history"]}
        except (KeyError, TypeError):
            return {}


class Comparison:
    """What has been compared, line by line, and the first step that differs."""

    def __init__(self):
        self.lines, self.compared, self.differs = [], 0, False

    def add(self, line, differs):
        self.lines.append(line)
        self.compared += 1
        self.differs = self.differs or differs

    def report(self):
        """Prints what was compared, and the verdict. Returns the exit status."""
        print("\n".join([*self.lines, "other bits" if self.differs else "the same bits"]))
        return 1 if self.differs else 0


def made_by(entry):
    world = entry["world"]
    return f"{world} worker{'' if world == 1 else 's'}, generation {entry['generation']}"


def compare_steps(one, other, comparison):
    common = sorted(one.steps.keys() & other.steps.keys())
    if not common:
        return
    names = ("ids", "status", "samples", "hash")
    differing = []
    for step in common:
        a, b = one.steps[step], other.steps[step]
        if bits(a.get("loss")) != bits(b.get("loss")) or any(a.get(name) != b.get(name) for name in names if name in a and name in b):
            differing.append(step)
    line = f"steps: {len(common) - len(differing)} of {len(common)} have the same samples and loss"
    if differing:
        a, b = one.steps[differing[0]], other.steps[differing[0]]
        line += (f"; the first that differs is {differing[0]}: loss {a.get('loss')} ({made_by(a)}) and {b.get('loss')} ({made_by(b)})")
    comparison.add(line, bool(differing))
    for run, its in ((one, other), (other, one)):
        if max(run.steps) > max(its.steps):
            comparison.lines.append(f"only {run.name} has the steps from {max(its.steps) + 1} to {max(run.steps)}")


def compare_evaluations(one, other, comparison):
    pair = one.evaluations(), other.evaluations()
    common = sorted(pair[0].keys() & pair[1].keys())
    if common:
        differing = [epoch for epoch in common if pair[0][epoch] != pair[1][epoch]]
        line = f"evaluations: {len(common) - len(differing)} of {len(common)} epochs are equal"
        comparison.add(line + (f"; the first that differs is epoch {differing[0]}" if differing else ""), bool(differing))


def compare_files(name, one, other, comparison):
    found, count = tensors.differences(tensors.read(one), tensors.read(other))
    if count == 0:
        comparison.add(f"{name}: neither has tensors", False)
        return
    if not found:
        digests = {files.file_digest(path) for path in (one, other)}
        comparison.add(f"{name}: all {count} tensors are equal{'' if len(digests) == 1 else ', the files differ in their metadata alone'}", False)
        comparison.lines += [f"  sha256 {digest}" for digest in digests if len(digests) == 1]
        return
    comparison.add(f"{name}: {len(found)} of {count} tensors differ", True)
    comparison.lines += [f"  {tensor}: {what}" for tensor, what in list(found.items())[:MOST_SHOWN]]
    if len(found) > MOST_SHOWN:
        comparison.lines.append(f"  ... and {len(found) - MOST_SHOWN} more")


def compare_weights(one, other, after, comparison):
    pair = one.checkpoints(), other.checkpoints()
    for step in sorted(step for step in pair[0].keys() & pair[1].keys() if step > after):
        for name in ("model.safetensors", "optimizer.safetensors"):
            paths = [os.path.join(each[step], name) for each in pair]
            if all(map(os.path.isfile, paths)):
                compare_files(f"step_{step}/{name}", *paths, comparison)
    paths = [os.path.join(run.path, "model.safetensors") for run in (one, other)]
    if one.end == other.end and all(map(os.path.isfile, paths)):
        compare_files("model.safetensors", *paths, comparison)


def reasons(one, other):
    """Yields what is not part of a run's identity and changes bits."""
    kinds = [run.progress.get("machines") for run in (one, other)]
    if all(kinds) and kinds[0] != kinds[1]:
        yield f"they were computed on other kinds of machines: {'; '.join(map(str, kinds[0]))} and {'; '.join(map(str, kinds[1]))}"
    threads = [run.progress.get("threads") for run in (one, other)]
    if None not in threads and threads[0] != threads[1]:
        yield f"each worker computed with {threads[0]} and with {threads[1]} threads, which divides sums in another way: give both --threads"


def compare_runs(one, other, after=0):
    """Compares the steps of two Folders, and their checkpoints after so many steps. Raises Incomparable."""
    unlike = [f"{said} ({one.head.get(name)} and {other.head.get(name)})" for name, said in OF_THE_RUN.items()
              if one.head.get(name) != other.head.get(name)]
    if unlike:
        raise Incomparable(f"they are different runs: another {', '.join(unlike)}")
    comparison = Comparison()
    compare_steps(one, other, comparison)
    compare_evaluations(one, other, comparison)
    compare_weights(one, other, after, comparison)
    if comparison.differs:
        comparison.lines += reasons(one, other)
    return comparison
