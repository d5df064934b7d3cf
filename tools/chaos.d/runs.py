"""The properties of a disturbed training run, checked with its ledgers and its agents' event logs."""
import os
import subprocess
import sys

import storm
from storm import difference

TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, os.path.join(TOOLS, "verify_ledger.d"))
import ledger as ledgers  # noqa: E402

SLACK_SECONDS = 1.0   # maximum delay until a written line is seen
BEFORE_SECONDS = 5.0  # a fault can end a worker that its node has just started for the next generation
ENDS_PROCESSES = ("worker", "agent", "node", "leave", "gone")


class Watch:
    """The growing ledgers of a run. `steps` is the furthest position, `current` the generation that began last, at
    `began`.

    Numbers do not give the order: a random gap is added if branches may differ. `first`: generation -> first seen."""

    def __init__(self, folders):
        self.folders, self.tails = folders, [storm.Tail(os.path.join(folder, "ledger.jsonl")) for folder in folders]
        self.repeats = [None] * len(folders)  # per file: (generation, step, of) of the last rewind, until the next step
        self.steps, self.seen, self.first, self.current, self.began, self.problems = 0, set(), {}, 0, 0.0, []

    def order(self):
        """Returns the generations in order of time; those found in one look are in order of number."""
        return sorted(self.first, key=lambda generation: (self.first[generation], generation))

    def look(self, now):
        """Returns whether there is a new step."""
        new = False
        for number, tail in enumerate(self.tails):
            for line in (line for line in tail.new() if "step" in line or "rewind" in line):
                known = (line["generation"], line.get("step")) in self.seen
                self.add(line, now, known, self.is_repeated(number, line))
                new = new or ("step" in line and not known)
                self.seen.add((line["generation"], line.get("step")))
        return new

    def is_repeated(self, number, line):
        """Returns whether the writer of a later generation repeats a remembered earlier step."""
        after = self.repeats[number]
        if "rewind" in line:
            self.repeats[number] = (line["generation"], line["rewind"], line.get("of") or 0)
            return False
        if after and line["generation"] <= after[2] and line["generation"] != after[0] and line["step"] < after[1]:
            self.first.setdefault(line["generation"], self.first[after[0]])  # earlier; its writer left no line
            return True
        self.repeats[number] = None
        return False

    def add(self, line, now, known, repeated):
        generation = line["generation"]
        if generation not in self.first:
            self.first[generation] = now
            if self.order()[-1] == generation:
                self.current, self.began = generation, now
        if "step" in line:
            self.step(line, now, known or repeated)

    def step(self, line, now, old):
        self.steps = max(self.steps, line["step"] + 1)
        if line["generation"] != self.current and not old and now > self.began + SLACK_SECONDS:
            self.problems.append(f"generation {line['generation']} writes step {line['step']} {now - self.began:.1f} s after the "
                                 f"first of generation {self.current}")


def read(folders):
    return [ledgers.Ledger(folder) for folder in folders if os.path.exists(os.path.join(folder, "ledger.jsonl"))]


def losses(folders):
    """Returns {step: loss} of the lines that count."""
    return {step: float(entry["loss"]) for step, entry in ledgers.Run(read(folders)).steps.items()}


class Branches:
    """The lines that count for each generation of a run, if it were the last one, as verify_ledger reads the files."""

    def __init__(self, folders):
        self.run = ledgers.Run(read(folders))

    def of(self, generation):
        return max((each for each in self.run.generations if each[1] == generation), default=None)

    def made(self, generation):
        """Returns the steps that count."""
        return {step for each, first, until in self.run.branch(self.of(generation)) for step in self.run.generations[each].steps
                if first <= step < until}

    def begin(self, generation):
        """Returns its first step."""
        return self.run.generations[self.of(generation)].begins


class Story:
    """The members of a run's generations, and which of them may have died in between."""

    def __init__(self, evidence, faults, began, ended, watch):
        self.members, self.faults, self.order = {}, faults, watch.order()  # generation -> (since, hosts)
        self.exits = [(event["t"], event["host"], event.get("exit_code") == 0) for event in evidence.events_of("worker_exited")]
        assigned = {}  # id -> (when, number at the rendezvous, hosts)
        for event in evidence.events_of("generation_assigned"):
            if began <= event["t"] <= ended:
                hosts = {node["host"] for node in event["nodes"]}
                assigned.setdefault(event["generation_id"], (event["t"], event["generation"], hosts))
        said = {}  # generation -> its line in the metrics
        for folder in watch.folders:
            for line in storm.Tail(os.path.join(folder, "metrics.jsonl")).new():
                if isinstance(line.get("generation"), int) and "assigned" in line:
                    said.setdefault(line["generation"], line)
        before = began
        for generation in self.order:
            first = watch.first[generation]
            if found := self.found(said.get(generation), list(assigned.values()), before, first):
                self.members[generation] = found
            before = first

    @staticmethod
    def found(said, assigned, before, first):
        """Returns (when the generation was assigned, its hosts), or None. If its writer died before it could record its
        number at the rendezvous, it is the only one assigned since the previous generation began."""
        if not said:
            since = [(when, hosts) for when, _, hosts in assigned if before < when <= first]
            return since[0] if len(since) == 1 else None
        hosts = {member[0] for member in said.get("members") or []}
        # A service that has lost its job restarts its numbers, so the last generation of that number is meant.
        times = [when for when, number, of in assigned if number == said["assigned"] and of == hosts and when <= first]
        return (times[-1] if times else first, hosts)

    def between(self, before, after):
        """Returns the time span in which the first of two generations was the newest, and the members of both."""
        if before not in self.members or after not in self.members:
            return 0.0, 0.0, set()
        (since, old), (until, new) = self.members[before], self.members[after]
        return since, until, old & new

    def hit(self, since, until):
        """Returns nodes with faults that end processes. A late node ends old ones when it learns of the end."""
        return {f"node{fault['node']}" for fault in self.faults
                if (fault["kind"] in ENDS_PROCESSES and since <= fault["from"] <= until)
                or (fault["kind"] == "reuse" and fault["from"] <= until and since <= fault["to"])}

    def ended(self, since, until, badly=False):
        """Returns nodes on which a worker ended. `badly`: ignores successes, which belong to the previous run."""
        return {host for when, host, well in self.exits if since <= when <= until and not (badly and well)}

    def survivors(self, before, after):
        """Returns the members of both whose processes all survived from one beginning to the other."""
        since, until, both = self.between(before, after)
        return both - self.ended(since, until) - self.hit(since, until)

    def without_cause(self, before, after):
        """Returns the members of both on which a worker ended without a fault; workers should outlive generations."""
        since, until, both = self.between(before, after)
        return (both & self.ended(since, until, badly=True)) - self.hit(since - BEFORE_SECONDS, until)


class Redone:
    """The number of earlier steps that each generation redid. A generation that continues further steps of another
    branch redoes none."""

    def __init__(self, branches, story):
        self.total, self.judged, self.again, self.problems = 0, 0, 0, []
        generations = [generation for generation in story.order if branches.made(generation)]
        for before, after in zip(generations, generations[1:]):
            self.judge_causes(story, before, after)
            self.judge(sum(step >= branches.begin(after) for step in branches.made(before)), story, before, after)

    def judge_causes(self, story, before, after):
        if ended := story.without_cause(before, after):
            self.problems.append(f"between generations {before} and {after} workers of {', '.join(sorted(ended))} ended "
                                 "although nothing was done to them")

    def judge(self, back, story, before, after):
        self.total += back
        if left := story.survivors(before, after):
            self.judged += 1
            if back > 1:
                self.problems.append(f"generation {after} takes back {back} steps of generation {before} although "
                                     f"{', '.join(sorted(left))} went on")
        elif back > 1:
            self.again += 1


def complaints(status, stdout, stderr):
    """Returns the errors reported by verify_ledger."""
    said = stdout.strip().splitlines()
    last = (said + stderr.strip().splitlines() or [""])[-1]
    return (said[:-1] or [f"verify_ledger ended with {status}: {last}"]) if status else []


class Judgement:
    def __init__(self, row, problems):
        self.row, self.problems = row, problems


def verdict(watch, data, expected, evidence, faults, span):
    """Judges one run. `span`: the times between which it was the job of its id."""
    found = read(watch.folders)
    if not found:
        return Judgement(["-"] * 7, ["there is no ledger"])
    checked = subprocess.run([sys.executable, os.path.join(TOOLS, "verify_ledger"), "--data", data]
                             + [ledger.folder for ledger in found], capture_output=True, text=True)
    branches = Branches(watch.folders)
    redone = Redone(branches, Story(evidence, faults, *span, watch))
    problems = watch.problems + redone.problems + complaints(checked.returncode, checked.stdout, checked.stderr)
    problems += [f"{ledger.path}: {ledger.late} lines of a generation that was over" for ledger in found if ledger.late]
    worst = difference(losses(watch.folders), expected)
    if worst > 1e-9:
        problems.append(f"losses differ by {worst:.3g}")
    made = {of: each.steps.values() for of, each in branches.run.generations.items() if each.steps}
    worlds = sorted({entry["world"] for lines in made.values() for entry in lines})
    row = [len(made), " ".join(map(str, worlds)), redone.total, redone.judged, redone.again,
           f"{worst:.1e}", (checked.stdout.strip().splitlines() or ["-"])[-1]]
    return Judgement(row, problems)
