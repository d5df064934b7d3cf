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
    """Each generation in one ledger.jsonl: its steps and their lines, its rewinds, its checkpoints. `highest` is the
    highest generation so far."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "ledger.jsonl")
        self.head, self.made, self.rewinds, self.weights, self.problems, self.highest = None, {}, {}, {}, [], 0
        self.remembered = None  # (steps, generation) below which the last writer may repeat lines, until its first step
        self.before = self.last_timely = FIRST
        self.timely = {FIRST}
        with open(self.path, "rb") as file:
            for number, text in enumerate(file.read().split(b"\n"), 1):
                if text:
                    self.read(number, text, hashlib.sha256(text).hexdigest())

    def read(self, number, text, digest):
        entry = self.parsed(text)
        if entry is not None and not self.is_late(entry):
            if entry.get("prev") not in self.predecessors(entry):
                self.wrong(number, "prev does not name a line that is before this one")
            self.last_timely = digest
            self.timely.add(digest)
        if entry is not None:
            self.add(number, entry)
        self.before = digest

    def wrong(self, number, what):
        self.problems.append(f"{self.path}:{number}: {what}")

    def is_below(self, entry):
        return isinstance(entry.get("generation"), int) and entry["generation"] < self.highest

    def is_remembered(self, entry):
        return bool(self.remembered and isinstance(entry.get("step"), int) and entry["step"] < self.remembered[0]
                    and entry["generation"] <= self.remembered[1])

    def is_late(self, entry):
        """Returns whether the writer of the line did not know that its generation was over."""
        return self.is_below(entry) and not self.is_remembered(entry)

    def predecessors(self, entry):
        """Returns the digests that the line's prev may be. The first line of a generation may not know of late ones."""
        if isinstance(entry.get("generation"), int) and entry["generation"] > self.highest:
            return self.timely | {self.before}
        return {self.before, self.last_timely}

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
                self.wrong(number, "a second first line")
            self.head = self.head or entry
        elif self.head is None:
            self.wrong(number, "a line before the first line")
        elif not isinstance(entry.get("generation"), int) or not any(isinstance(entry.get(key), int) for key in
                                                                     ("step", "rewind", "checkpoint")):
            self.wrong(number, "neither a step nor a rewind nor a checkpoint")
        elif "step" in entry:
            self.add_step(number, entry)
        elif not self.is_below(entry):  # of a finished generation only steps count
            self.highest, generation = entry["generation"], entry["generation"]
            if "rewind" in entry:
                self.rewind(generation, entry["rewind"], entry.get("of"))
            else:
                self.weights.setdefault(entry["checkpoint"], set()).add((generation, entry.get("weights")))

    def add_step(self, number, entry):
        below, generation = self.is_below(entry), entry["generation"]
        steps = self.made.setdefault(generation, {})
        other = steps.setdefault(entry["step"], entry)
        if other is not entry and content(other) != content(entry):
            self.wrong(number, f"generation {generation} has two different lines of step {entry['step']}")
        elif other is not entry and not below:
            self.wrong(number, f"generation {generation} has step {entry['step']} twice")
        if not below:
            self.highest, self.remembered = generation, None

    def rewind(self, generation, step, of):
        self.rewinds.setdefault(generation, set()).add((step, of))
        steps = self.made.setdefault(generation, {})
        for other in [other for other in steps if other >= step]:
            del steps[other]
        self.remembered = (step, of) if of else None


def content(entry):
    return {key: value for key, value in entry.items() if key != "prev"}


# ---- all files of a run

class Book:
    """The ledgers of a run, merged. `made` maps a generation to its steps and their lines."""

    def __init__(self, folders):
        self.files = [File(folder) for folder in folders if os.path.exists(os.path.join(folder, "ledger.jsonl"))]
        self.problems = [problem for file in self.files for problem in file.problems]
        self.head = next((file.head for file in self.files if file.head), None)
        self.made, self.rewinds, self.weights = {}, {}, {}  # ..., generation -> {(rewind, of)}, steps -> {(generation, weights)}
        for file in self.files:
            self.compare_head(file)
            self.join(file)

    def compare_head(self, file):
        if file.head is None:
            self.problems.append(f"{file.path}: no first line")
            return
        other = [key for key in file.head.keys() | self.head.keys()
                 if key not in ("prev", "ledger") and file.head.get(key) != self.head.get(key)]
        if other:
            self.problems.append(f"{file.path}: other {', '.join(sorted(other))} than in {self.files[0].path}")

    def join(self, file):
        for generation, rewinds in file.rewinds.items():
            self.rewinds.setdefault(generation, set()).update(rewinds)
        for steps, said in file.weights.items():
            self.weights.setdefault(steps, set()).update(said)
        for generation, lines in file.made.items():
            steps = self.made.setdefault(generation, {})
            for step, entry in lines.items():
                if content(steps.setdefault(step, entry)) != content(entry):
                    self.problems.append(f"{file.path}: generation {generation} has two different lines of step {step}")

    def begin(self, generation):
        """Returns (first step of the generation, generation that it continues)."""
        lower = max((each for each in self.made if each < generation), default=None)
        rewinds = self.rewinds.get(generation, set())
        said = [of for _, of in sorted(rewinds, key=lambda each: each[0]) if of is not None]
        return min([*self.made[generation], *(step for step, _ in rewinds)], default=0), said[0] if said else lower

    def last(self):
        """Returns where the walk begins: of the files' highest generations the one that reaches furthest."""
        return max({file.highest for file in self.files} & self.made.keys(), key=lambda each: (self.end(each), each), default=None)

    def end(self, generation):
        return max(self.made[generation], default=self.begin(generation)[0] - 1) + 1

    def walk(self, generation=None):
        """Returns the ranges of steps that count for `generation` (default: the last one) as [(generation, from, to)], newest
        first. `to` is exclusive; None means no end."""
        found, end = [], None
        generation = self.last() if generation is None else generation
        while generation in self.made:
            begin, parent = self.begin(generation)
            begin = begin if end is None else min(begin, end)
            found.append((generation, begin, end))
            end = begin
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

    # ---- the invariants

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
            if len({of for _, of in self.rewinds.get(generation, ())}) > 1:
                yield f"generation {generation} continues several others: {sorted(map(str, self.rewinds[generation]))}"
            worlds = {line.get("world") for line in steps.values()}
            if len(worlds) > 1:
                yield f"generation {generation} has {len(worlds)} world sizes"
        for generation, begin, _ in self.walk():
            parent = self.begin(generation)[1]
            if begin and parent is not None and parent not in self.made:
                yield f"generation {generation} continues generation {parent}, of which no ledger has a line"
            if parent is not None and parent >= generation:
                yield f"generation {generation} continues generation {parent}, which is not lower"


# ---- checkpoints

NAME = re.compile(r"(?:branch_(\d+)_)?step_(\d+)(?:\.\d+)?")


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
    own = own_record(state, generation, steps - 1)
    if own and any(own.get(key) != value for key, value in record_of(book.head, steps - 1).items()):
        yield f"{path}: the record of its last step has other samples than the order of samples"
    if steps and not own and steps - 1 not in book.made.get(generation, {}):
        yield f"{path}: no ledger has step {steps - 1} of generation {generation}"
    yield from check_lineage(book, path, state, generation, steps)


def own_record(state, generation, step):
    """Returns the record of the last step that a checkpoint carries, for a writer that died before it wrote the line: no later one
    writes it if the run continues elsewhere. None if it is of another step."""
    record = state.get("progress", {}).get("last_step") or {}
    return record if (record.get("generation"), record.get("step")) == (generation, step) else None


def record_of(head, step):
    """Returns the fields of such a record that depend on its samples."""
    line = expected(head, step)
    return {"samples": line["samples"], "hash": int(line["hash"], 16)}


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
        missing = [step for step in range(entry["from"], following["from"])
                   if step not in lines and not own_record(state, entry["generation"], step)]
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
