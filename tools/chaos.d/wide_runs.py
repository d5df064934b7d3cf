"""Judges the runs of a wide storm: a run never goes back, and its proof is complete."""
import collections
import json
import os
import subprocess
import sys
import time

TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(1, os.path.join(TOOLS, "verify_bits.d"))

import plain_ledger
import properties
import runs
import storm
import tensors as tensor_files

SAME = 0.0            # relative; the same bits
SEEN_SECONDS = 2.0    # a checkpoint of this age counts as readable when a generation begins
LATE_STEPS = 1        # a writer that was frozen while it wrote a step may finish that line after its thaw
BLAME_SECONDS = 1.0   # delay until a line is seen


class Watch(runs.Watch):
    """The growing ledgers of a run. `steps` is its current position, which may go back after a cold start."""

    def __init__(self, folders, began):
        super().__init__(folders)
        self.late, self.began_at, self.finished = collections.defaultdict(set), began, False

    def add(self, line, now, known, repeated):
        super().add(line, now, known, repeated)
        if line["generation"] == self.current:
            self.steps = line["step"] + 1 if "step" in line else line["rewind"]

    def step(self, line, now, old):
        if line["generation"] != self.current and not old and now > self.began + runs.SLACK_SECONDS:
            self.late[line["generation"]].add(line["step"])

    def late_problems(self):
        for generation, steps in sorted(self.late.items()):
            if len(steps) > LATE_STEPS:
                yield f"generation {generation} wrote {len(steps)} steps after a later one had begun"


class Story(runs.Story):
    """The members of each generation. Includes faults that are seen late, and those of frozen nodes."""

    def hit(self, since, until):
        """Returns the nodes whose processes were ended, or that were frozen beyond their lease."""
        found = super().hit(since - BLAME_SECONDS, until)
        for fault in self.faults:
            if since - BLAME_SECONDS <= fault["to"] and fault["from"] <= until:
                found |= {f"node{number}" for number in fault.get("ended", [])}
        return found

    def ended(self, since, until, badly=False):
        return super().ended(since - BLAME_SECONDS, until, badly)

    def lived(self, host, since, until):
        """Returns whether nothing has ended the processes of this node."""
        return host not in self.ended(since, until) | self.hit(since, until)


class Branches:
    """The same as runs.Branches, read by the second program."""

    def __init__(self, book):
        self.book = book

    def made(self, generation):
        return self.book.lines(generation).keys() if generation in self.book.made else set()

    def begin(self, generation):
        return self.book.begin(generation)[0]


class Redone(runs.Redone):
    def judge_causes(self, story, before, after):
        """A frozen node's workers can end long after the fault."""


def gone_back(book, story, watch, kept, number_of_folders):
    """Yields an error for each generation that began below a checkpoint that one of its members could read, or below what
    one of them held."""
    for number, generation in enumerate(story.order):
        if generation in story.members and generation in book.made:
            of_disk = below_disk(book, story, watch, kept, number_of_folders, generation)
            if wrong := of_disk or below_memory(book, story, story.order[:number], generation):
                begin, parent = book.begin(generation)
                hosts = ", ".join(sorted(story.members[generation][1]))
                yield f"generation {generation} ({hosts}) continues from step {begin} of generation {parent} although {wrong}"


def below_disk(book, story, watch, kept, number_of_folders, generation):
    """Returns which folder had what when the generation began, or None."""
    began, hosts = story.members[generation]
    folders = {watch.folders[int(host.removeprefix("node")) % number_of_folders] for host in hosts}
    for folder in sorted(folders & kept.disks.keys()):
        there = [found for found in kept.disks[folder].ever if found.seen < began - SEEN_SECONDS
                 and found.steps > book.begin(generation)[0] and found.run == book.head["run"]]
        if there:
            most = max(there, key=lambda found: found.steps)
            return f"{folder} had step_{most.steps} of generation {most.generation}"
    return None


def below_memory(book, story, earlier, generation):
    """Returns which member held what from the last generation that it was in, or None."""
    until, hosts = story.members[generation]
    for host in sorted(hosts):
        # The order of time is that of looks at several files, so one that continues this generation is not earlier.
        last = next((each for each in reversed(earlier) if host in story.members.get(each, (0.0, ()))[1]
                     and not any(of == generation for of, _, _ in book.walk(each))), None)
        if last is not None and book.made.get(last) and story.lived(host, story.members[last][0], until):
            if max(book.made[last]) > book.begin(generation)[0]:  # one step may be redone
                return f"{host} had finished step {max(book.made[last])} of generation {last} and lived on"
    return None


# ---- weights

def tensors(path):
    """Returns the float64 tensors of a safetensors file by name."""
    return {name: tensor.bytes.cast("d") for name, tensor in tensor_files.read(path).items() if tensor.dtype == "F64"}


def weights_apart(path, alone):
    """Returns the largest difference of two files' weights, relative to the largest number of the tensor."""
    seen, expected = tensors(path), tensors(alone)
    if not expected or seen.keys() != expected.keys() or any(len(seen[name]) != len(expected[name]) for name in seen):
        return float("inf")
    return max(max(abs(a - b) for a, b in zip(seen[name], numbers)) / (max(map(abs, numbers)) or 1.0)
               for name, numbers in expected.items())


def check_weights(folders, alone):
    """Returns (largest difference, errors)."""
    paths = [os.path.join(folder, "model.safetensors") for folder in folders]
    apart = {path: weights_apart(path, os.path.join(alone, "model.safetensors")) for path in paths if os.path.exists(path)}
    if not apart:
        return float("inf"), ["no folder has the final weights"]
    return max(apart.values()), [f"{path}: weights differ by {worst:.3g}" for path, worst in apart.items() if worst > SAME]


# ---- the whole run

def verdict(storm_, watch, evidence, expected, alone, span):
    """Judges one run. `span`: the times between which it was the job of its id."""
    folders = [folder for folder in watch.folders if os.path.exists(os.path.join(folder, "ledger.jsonl"))]
    problems = storm_.kept.problems(watch.folders)
    if not folders:
        return runs.Judgement(["-"] * 9, problems + ["there is no ledger"])
    book = plain_ledger.Book(folders)
    story = Story(evidence, storm_.fired, *span, watch)
    redone = Redone(Branches(book), story)
    problems += list(watch.late_problems()) + redone.problems
    problems += gone_back(book, story, watch, storm_.kept, len(watch.folders))
    checked = subprocess.run([sys.executable, os.path.join(TOOLS, "verify_ledger"), "--data", storm_.data]
                             + ([] if watch.finished else ["--partial"]) + folders, capture_output=True, text=True)
    plain, proven = plain_ledger.check(folders)
    problems += runs.complaints(checked.returncode, checked.stdout, checked.stderr) + [f"plain ledger: {each}" for each in plain]
    worst = weights = "-"
    if watch.finished:
        worst = runs.difference({step: float(line["loss"]) for step, line in book.lines().items()}, expected)
        problems += [f"losses differ by {worst:.3g}"] if worst > SAME else []
        weights, wrong = check_weights(watch.folders, alone)
        problems += wrong
        worst, weights = f"{worst:.1e}", f"{weights:.1e}"
    branches = sum(name.startswith("branch_") for folder in folders for name in os.listdir(folder))
    row = [sum(bool(steps) for steps in book.made.values()), redone.total, redone.judged, redone.again, branches, worst, weights,
           (checked.stdout.strip().splitlines() or ["-"])[-1], f"whole, {proven} weights" if not plain else "NOT whole"]
    return runs.Judgement(row, problems)


HEAD = ["run", "generations", "redone", "at most one in", "began again", "branches", "loss differs", "weights differ",
        "verify_ledger", "plain ledger"]


class EventLogs:
    """Copies the agents' event logs and replaces the times of moved clocks with the true ones."""

    def __init__(self, folder, nodes, preload):
        self.folder, self.preload = folder, preload
        self.tails = [storm.Tail(os.path.join(folder, self.name(node))) for node in range(nodes)]

    @staticmethod
    def name(node):
        """Returns the name of the file that a node's agent writes."""
        return f"raw-events-{node}.jsonl"

    def copy(self):
        for node, tail in enumerate(self.tails):
            if lines := tail.new():
                now = time.time()
                with open(os.path.join(self.folder, f"events-{node}.jsonl"), "a", encoding="utf-8") as file:
                    for line in lines:
                        line["time"] = self.text(self.preload.true_time(node, properties.wall_time(line), now))
                        file.write(json.dumps(line) + "\n")

    @staticmethod
    def text(seconds):
        whole, part = divmod(int(round(seconds * 1000)), 1000)
        return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{part:03d}Z"
