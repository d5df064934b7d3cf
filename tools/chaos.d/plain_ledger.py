#!/usr/bin/env python3
"""Checks the ledgers of a run a second time, from docs/formats.md alone.

  tools/chaos.d/plain_ledger.py RUN_FOLDER...

It shares no code with tools/verify_ledger, so that one mistake is not made twice. The folders are those of the nodes of one
run. It checks the chain of each file, walks over the generations, and expects each step once and with the samples that the
order of samples gives it. The checkpoints in the folders must have the weights that a ledger names, and their steps must be in
a ledger. Exit status 0: all of that holds; 1: not."""
import hashlib
import json
import os
import re
import struct
import sys

MASK = (1 << 64) - 1
FIRST = 64 * "0"


# ---- the order of samples

def splitmix(x):
    z = (x + 0x9E3779B97F4A7C15) & MASK
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    return z ^ z >> 31


def fnv1a(name):
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = (value ^ byte) * 0x100000001B3 & MASK
    return value


def named_key(seed, name, index):
    return splitmix((fnv1a(name) ^ splitmix(seed)) + index & MASK)


def permuted(key, size, position):
    """Returns the number at `position` of the permutation of [0, size) that `key` chooses."""
    half = max(4, ((size - 1).bit_length() + 1) // 2)
    while True:
        left, right = position >> half, position & (1 << half) - 1
        for turn in range(8):
            left, right = right, left ^ splitmix(splitmix(key + turn & MASK) ^ right) >> 64 - half
        position = left << half | right
        if position < size:
            return position


def stream_id(head, epoch, position):
    """Returns the sample at `position` of an epoch with --shuffle streams or fixed_streams."""
    seed, shards, window = head["seed"], head["shards"], head["window"]
    batch, micro, fixed = head["global_batch"], head["micro_batch"], head["shuffle"] == "fixed_streams"
    whole, rest = divmod(sum(shards), batch)
    step, row = divmod(position, batch)
    stream, row = divmod(row, micro)
    begin, end = (whole * min(each, batch) + min(each, rest) for each in (stream * micro, stream * micro + micro))
    parts, at = [], 0  # (first sample, samples)
    for number in range(len(shards)):
        shard = permuted(named_key(seed, "shards", 0 if fixed else epoch), len(shards), number)
        low, high = max(begin, at), min(end, at + shards[shard])
        if low < high:
            parts.append((sum(shards[:shard]) + low - at, high - low))
        at += shards[shard]
    if fixed:
        key = splitmix(named_key(seed, "parts", epoch) + stream & MASK)
        parts = [parts[permuted(key, len(parts), number)] for number in range(len(parts))]
    at, key = step * min(micro, batch - stream * micro) + row, splitmix(named_key(seed, "windows", epoch) + stream & MASK)
    for first in range(0, len(parts), window):
        size = sum(count for _, count in parts[first:first + window])
        if at < size:
            break
        at -= size
    at = permuted(splitmix(key + first // window & MASK), size, at)
    for sample, count in parts[first:first + window]:
        if at < count:
            return sample + at
        at -= count
    raise ValueError("the shards do not have all samples")


def sample_ids(head, step):
    """Returns the samples of a step of the run, in order."""
    each = -(-head["size"] // head["global_batch"])
    epoch, of_epoch = divmod(step, each)
    positions = range(of_epoch * head["global_batch"], min((of_epoch + 1) * head["global_batch"], head["size"]))
    if head["shuffle"] is False:
        return list(positions)
    if head["shuffle"] is True:
        key = named_key(head["seed"], "sampler", epoch)
        return [permuted(key, head["size"], position) for position in positions]
    return [stream_id(head, epoch, position) for position in positions]


def expected(head, step):
    """Returns the fields of a step's line that depend on its samples."""
    ids = sample_ids(head, step)
    return {"epoch": step // -(-head["size"] // head["global_batch"]), "samples": len(ids),
            "ids": hashlib.sha256(struct.pack(f"<{len(ids)}Q", *ids)).hexdigest(),
            "hash": f"{sum(map(splitmix, ids)) & MASK:016x}"}


# ---- one file

class File:
    """The lines of one ledger.jsonl, and the errors in its chain."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "ledger.jsonl")
        self.head, self.lines, self.problems = None, [], []
        digests, before, last_timely, highest, generations = set(), FIRST, FIRST, 0, set()
        with open(self.path, "rb") as file:
            texts = file.read().split(b"\n")
        for number, text in enumerate(texts, 1):
            if not text:
                continue
            digest, entry = hashlib.sha256(text).hexdigest(), self.parsed(text)
            if entry is not None:
                generation = entry.get("generation", 0)
                allowed = {before, last_timely} if before != FIRST else {FIRST}
                # A writer that is late, and the first one of a generation, may not have seen the lines right before theirs.
                if "generation" in entry and (generation < highest or generation not in generations):
                    allowed = digests
                if entry.get("prev") not in allowed:
                    self.problems.append(f"{self.path}:{number}: prev does not name a line that is before this one")
                if generation >= highest:
                    last_timely, highest = digest, generation
                generations.add(generation)
                self.add(number, entry)
            digests.add(digest)
            before = digest

    @staticmethod
    def parsed(text):
        """Returns the line as an object, or None if a killed writer left it unfinished."""
        try:
            entry = json.loads(text)
        except ValueError:
            return None
        return entry if isinstance(entry, dict) else None

    def add(self, number, entry):
        if "ledger" in entry:
            if self.head is not None:
                self.problems.append(f"{self.path}:{number}: a second first line")
            self.head = self.head or entry
        elif self.head is None:
            self.problems.append(f"{self.path}:{number}: a line before the first line")
        elif isinstance(entry.get("generation"), int) and any(isinstance(entry.get(key), int) for key in
                                                              ("step", "rewind", "checkpoint")):
            self.lines.append(entry)
        else:
            self.problems.append(f"{self.path}:{number}: neither a step nor a rewind nor a checkpoint")


# ---- all files of a run

def content(entry):
    return {key: value for key, value in entry.items() if key != "prev"}


class Book:
    """The ledgers of a run, merged. `made` maps a generation to its steps and their lines."""

    def __init__(self, folders):
        self.files = [File(folder) for folder in folders if os.path.exists(os.path.join(folder, "ledger.jsonl"))]
        self.problems = [problem for file in self.files for problem in file.problems]
        self.head = next((file.head for file in self.files if file.head), None)
        self.made, self.rewinds, self.weights = {}, {}, {}  # ..., generation -> {(rewind, of)}, steps -> {(generation, weights)}
        for file in self.files:
            self.compare_head(file)
            for entry in file.lines:
                self.add(file, entry)

    def compare_head(self, file):
        if file.head is None:
            self.problems.append(f"{file.path}: no first line")
            return
        other = [key for key in file.head.keys() | self.head.keys()
                 if key not in ("prev", "ledger") and file.head.get(key) != self.head.get(key)]
        if other:
            self.problems.append(f"{file.path}: other {', '.join(sorted(other))} than in {self.files[0].path}")

    def add(self, file, entry):
        generation = entry["generation"]
        if "checkpoint" in entry:
            self.weights.setdefault(entry["checkpoint"], set()).add((generation, entry.get("weights")))
            return
        steps = self.made.setdefault(generation, {})
        if "rewind" in entry:
            self.rewinds.setdefault(generation, set()).add((entry["rewind"], entry.get("of")))
        elif content(steps.setdefault(entry["step"], entry)) != content(entry):
            self.problems.append(f"{file.path}: generation {generation} has two different lines of step {entry['step']}")

    def begin(self, generation):
        """Returns (first step of the generation, generation that it continues)."""
        lower = max((each for each in self.made if each < generation), default=None)
        first = min(self.made[generation], default=0)
        rewinds = self.rewinds.get(generation, {(first, None)})
        begin, of = min(rewinds, key=lambda each: (each[0], each[1] or 0))
        return begin, lower if of is None else of

    def walk(self, generation=None):
        """Returns the ranges of steps that count for `generation` (default: the last one) as [(generation, from, to)], newest
        first. `to` is exclusive; None means no end."""
        found, end = [], None
        generation = max(self.made, default=None) if generation is None else generation
        while generation in self.made:
            begin, parent = self.begin(generation)
            found.append((generation, begin, end))
            end = begin if end is None else min(begin, end)
            if parent is None or parent >= generation:
                break
            generation = parent
        return found

    def lines(self, generation=None):
        """Returns a map from each step to its line that counts."""
        found = {}
        for each, begin, end in self.walk(generation):
            found.update({step: line for step, line in self.made[each].items()
                          if step >= begin and (end is None or step < end)})
        return found

    def weights_of(self, generation, steps):
        """Returns the weights that are named for this position. A writer names a checkpoint in its own generation, which may be a
        later one than that of the checkpoint's last step, but continues it."""
        return {weights for writer, weights in self.weights.get(steps, ())
                if any(each == generation and begin < steps and (end is None or steps <= end)
                       for each, begin, end in self.walk(writer))}

    # ---- what must hold

    def check(self):
        """Yields every error, one sentence each."""
        yield from self.problems
        if self.head is None:
            yield "there is no ledger with a first line"
            return
        yield from self.check_generations()
        lines = self.lines()
        missing = sorted(set(range(max(lines, default=-1) + 1)) - lines.keys())
        if missing or not lines:
            yield f"{len(missing)} steps have no line that counts, the first is {missing[0] if missing else 0}"
        for step, line in sorted(lines.items()):
            wrong = [key for key, value in expected(self.head, step).items() if line.get(key) != value]
            if wrong:
                yield f"step {step} of generation {line['generation']} has other {', '.join(wrong)} than the order of samples"

    def check_generations(self):
        for generation, steps in sorted(self.made.items()):
            if len(self.rewinds.get(generation, ())) > 1:
                yield f"generation {generation} begins at several places: {sorted(map(str, self.rewinds[generation]))}"
            begin, parent = self.begin(generation)
            if any(step < begin for step in steps):
                yield f"generation {generation} has steps before its beginning, step {begin}"
            worlds = {line.get("world") for line in steps.values()}
            if len(worlds) > 1:
                yield f"generation {generation} has {len(worlds)} world sizes"
        for generation, begin, end in self.walk():
            parent = self.begin(generation)[1]
            if begin and parent is not None and parent not in self.made:
                yield f"generation {generation} continues generation {parent}, of which no ledger has a line"
            if parent is not None and parent >= generation:
                yield f"generation {generation} continues generation {parent}, which is not lower"


# ---- checkpoints

NAME = re.compile(r"(?:branch_(\d+)_)?step_(\d+)")


def json_at(*path):
    try:
        with open(os.path.join(*path), encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def digest_of(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() if hasattr(hashlib, "file_digest") else hashlib.sha256(
            file.read()).hexdigest()


def generation_at(lineage, step):
    """Returns (generation that made the step, whether an earlier one may have made it) according to a lineage."""
    found = [entry for entry in lineage if entry["from"] <= step]
    return (found[-1]["generation"], len(found) == 1) if found else (lineage[0]["generation"], True)


def descends(lineage, generation, steps):
    """Returns whether a state with this lineage descends from the position."""
    if steps == 0:
        return True
    found, earlier = generation_at(lineage, steps - 1)
    return generation == found or (earlier and generation < found)


def check_checkpoints(book, folders):
    """Returns (errors, number of checkpoints whose weights a ledger names)."""
    problems, proven = [], 0
    for folder in folders:
        for name in sorted(os.listdir(folder)):
            path, matched = os.path.join(folder, name), NAME.fullmatch(name)
            if matched and os.path.exists(os.path.join(path, "DONE")):
                found = list(check_checkpoint(book, path, matched))
                problems += found
                generation = json_at(path, "state.json").get("position", {}).get("generation")
                proven += not found and bool(book.weights_of(generation, int(matched[2])))
    return problems, proven


def check_checkpoint(book, path, name):
    files, state = json_at(path, "DONE").get("files", {}), json_at(path, "state.json")
    for file, record in files.items():
        if not os.path.isfile(os.path.join(path, file)) or digest_of(os.path.join(path, file)) != record["sha256"]:
            yield f"{path}/{file} is not what DONE says"
    position = state.get("position", {})
    generation, steps = position.get("generation"), int(name[2])
    if state.get("run") != book.head["run"]:
        yield f"{path} is of another run"
        return
    if position.get("steps") != steps or (name[1] and int(name[1]) != generation):
        yield f"{path} holds step {position.get('steps')} of generation {generation}"
    said = book.weights_of(generation, steps)
    if said and files.get("model.safetensors", {}).get("sha256") not in said:
        yield f"{path} has other weights than the ledgers name"
    if steps and steps - 1 not in book.made.get(generation, {}):
        yield f"{path}: no ledger has step {steps - 1} of generation {generation}"
    yield from check_lineage(book, path, state, generation, steps)


def check_lineage(book, path, state, generation, steps):
    lineage = state.get("lineage")
    if not lineage:
        return
    if [entry["generation"] for entry in lineage] != sorted({entry["generation"] for entry in lineage}) or any(
            a["from"] > b["from"] for a, b in zip(lineage, lineage[1:])):
        yield f"{path}: its lineage does not ascend"
    elif not descends(lineage, generation, steps):
        yield f"{path}: its lineage does not have its own position"
    for entry, following in zip(lineage[1:], lineage[2:] + [{"from": steps}]):
        lines = book.made.get(entry["generation"], {})
        missing = [step for step in range(entry["from"], following["from"]) if step not in lines]
        if missing:
            yield (f"{path}: its lineage has {len(missing)} steps of generation {entry['generation']} that no ledger has, the "
                   f"first is {missing[0]}")


def check(folders):
    """Returns (errors, number of checkpoints whose weights a ledger names) of a run with these folders."""
    book = Book(folders)
    problems = list(book.check())
    if book.head is None:
        return problems, 0
    of_checkpoints, proven = check_checkpoints(book, folders)
    return problems + of_checkpoints, proven


def main():
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__)
        return 0 if len(sys.argv) > 1 else 2
    problems, proven = check(sys.argv[1:])
    print("\n".join(problems[:30]) or f"each step once, {proven} checkpoints with the weights that a ledger names")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
