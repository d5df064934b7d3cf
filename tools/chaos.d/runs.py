"""What must hold of a training run that was disturbed, read from its ledgers and its agents' event logs."""
import os
import subprocess
import sys

import properties
import storm
from storm import difference

TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, os.path.join(TOOLS, "verify_ledger.d"))
import ledger as ledgers  # noqa: E402

SLACK_SECONDS = 1.0   # a line may be seen so much after it was written
BEFORE_SECONDS = 5.0  # a fault may end a worker that its node has just started for the next generation
ENDS_PROCESSES = ("worker", "agent", "node", "leave", "gone")


class Watch:
    """A run's ledgers as they grow: how far it is, and whether two generations write at a time."""

    def __init__(self, folders):
        self.folders, self.tails = folders, [storm.Tail(os.path.join(folder, "ledger.jsonl")) for folder in folders]
        self.steps, self.seen, self.highest, self.began, self.problems = 0, set(), 0, 0.0, []

    def look(self, now):
        """Whether there is a new step."""
        new = False
        for line in (line for tail in self.tails for line in tail.new() if "step" in line):
            step, generation = line["step"], line["generation"]
            if generation > self.highest:
                self.highest, self.began = generation, now
            elif generation < self.highest and (generation, step) not in self.seen and now > self.began + SLACK_SECONDS:
                self.problems.append(f"generation {generation} writes step {step} {now - self.began:.1f} s after the first of "
                                     f"generation {self.highest}")
            self.seen.add((generation, step))
            self.steps, new = max(self.steps, step + 1), True
        return new


def read(folders):
    return [ledgers.Ledger(folder) for folder in folders if os.path.exists(os.path.join(folder, "ledger.jsonl"))]


def losses(folders):
    """Step -> loss of the line that counts."""
    return {step: float(entry["loss"]) for step, entry in ledgers.merge(read(folders))[0].items()}


class Story:
    """Who was in a run's generations, and who of them may have died meanwhile."""

    def __init__(self, evidence, faults, began, ended):
        self.members, self.faults = {}, faults  # generation -> (since, hosts)
        self.exits = [(event["t"], event["host"], event.get("exit_code") == 0) for event in evidence.events_of("worker_exited")]
        for event in evidence.events_of("generation_assigned"):
            if began <= event["t"] <= ended:
                hosts = {node["host"] for node in event["nodes"]}
                self.members.setdefault(event["generation"], (event["t"], hosts))

    def between(self, before, after):
        """From when to when the first of two generations was the newest, and who was in both."""
        if before not in self.members or after not in self.members:
            return 0.0, 0.0, set()
        (since, old), (until, new) = self.members[before], self.members[after]
        return since, until, old & new

    def hit(self, since, until):
        """Nodes to which something was done that ends processes. One that is late ends those of the last run when it hears."""
        return {f"node{fault['node']}" for fault in self.faults
                if (fault["kind"] in ENDS_PROCESSES and since <= fault["from"] <= until)
                or (fault["kind"] == "reuse" and fault["from"] <= until and since <= fault["to"])}

    def ended(self, since, until, badly=False):
        """Nodes of which a worker has ended. `badly`: with success it has been one of the last run, which was over."""
        return {host for when, host, well in self.exits if since <= when <= until and not (badly and well)}

    def survivors(self, before, after):
        """Members of both whose processes nothing has ended between their beginnings."""
        since, until, both = self.between(before, after)
        return both - self.ended(since, until) - self.hit(since, until)

    def without_cause(self, before, after):
        """Members of both of which a worker has ended although nothing was done to them: workers stay over generations."""
        since, until, both = self.between(before, after)
        return (both & self.ended(since, until, badly=True)) - self.hit(since - BEFORE_SECONDS, until)


class Redone:
    """How many steps each generation took back of what stood before it."""

    def __init__(self, folders, story):
        self.total, self.judged, self.again, self.problems = 0, 0, 0, []
        steps = {}  # generation -> its steps
        for ledger in read(folders):
            for line in properties.lines_of(ledger.path):
                if "step" in line:
                    steps.setdefault(line["generation"], set()).add(line["step"])
        live, before = set(), None
        for generation in sorted(steps):
            back = {step for step in live if step >= min(steps[generation])}
            self.total += len(back)
            if before is not None and (ended := story.without_cause(before, generation)):
                self.problems.append(f"between generations {before} and {generation} workers of {', '.join(sorted(ended))} ended "
                                     "although nothing was done to them")
            if before is not None and (left := story.survivors(before, generation)):
                self.judged += 1
                if len(back) > 1:
                    self.problems.append(f"generation {generation} takes back {len(back)} steps of generation {before} although "
                                         f"{', '.join(sorted(left))} went on")
            elif len(back) > 1:
                self.again += 1
            live, before = (live - back) | steps[generation], generation


def complaints(status, stdout, stderr):
    """What verify_ledger says is wrong."""
    said = stdout.strip().splitlines()
    last = (said + stderr.strip().splitlines() or [""])[-1]
    return (said[:-1] or [f"verify_ledger ended with {status}: {last}"]) if status else []


class Judgement:
    def __init__(self, row, problems):
        self.row, self.problems = row, problems


def verdict(watch, data, expected, evidence, faults, span):
    """Of one run. `span`: from when to when it was the job of its id."""
    found = read(watch.folders)
    if not found:
        return Judgement(["-"] * 7, ["there is no ledger"])
    checked = subprocess.run([sys.executable, os.path.join(TOOLS, "verify_ledger"), "--data", data]
                             + [ledger.folder for ledger in found], capture_output=True, text=True)
    redone = Redone(watch.folders, Story(evidence, faults, *span))
    problems = watch.problems + redone.problems + complaints(checked.returncode, checked.stdout, checked.stderr)
    problems += [f"{ledger.path}: {ledger.late} lines of a generation that was over" for ledger in found if ledger.late]
    worst = difference(losses(watch.folders), expected)
    if worst > 1e-9:
        problems.append(f"losses differ by {worst:.3g}")
    lines = [entry for ledger in found for entry in ledger.steps.values()]
    worlds = sorted({entry["world"] for entry in lines})
    row = [len({entry["generation"] for entry in lines}), " ".join(map(str, worlds)), redone.total, redone.judged, redone.again,
           f"{worst:.1e}", (checked.stdout.strip().splitlines() or ["-"])[-1]]
    return Judgement(row, problems)
