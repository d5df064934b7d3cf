"""Measures the cost of chaos for a training run: its steps, and whether it equals the undisturbed run."""
import datetime
import glob
import json
import math
import os
import re
import statistics
import subprocess
import sys

import properties
import screen

TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
# The first fault of a kind is due within 2 mean intervals; if it has not fired within 3, it was not possible.
FIRST_INTERVALS, MOST_INTERVALS = 2, 3
ABORTED = re.compile(r"(\d\d):(\d\d):(\d\d\.\d+) \w+ D regrouping: step (\d+):")


# ---- inspecting processes

def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def age(pid):
    """Returns its start time: the smaller, the older."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return int(file.read().rsplit(")", 1)[1].split()[19])
    except OSError:
        return math.inf


def is_connected(pid):
    """Returns whether it has an established TCP connection, as a group's workers do but a starting one does not."""
    try:
        established = set()
        for table in ("tcp", "tcp6"):
            with open(f"/proc/{pid}/net/{table}", encoding="ascii") as file:
                established |= {words[9] for words in map(str.split, file) if words[3] == "01"}
        links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    except OSError:
        return False
    return any(link[8:-1] in established for link in links if link.startswith("socket:["))


class Tail:
    """The lines of a growing JSON lines file."""

    def __init__(self, path):
        self.path, self.at = path, 0

    def new(self):
        if not os.path.exists(self.path):
            return []
        with open(self.path, "rb") as file:
            file.seek(self.at)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self.at += len(whole)
        found = []
        for line in whole.splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                pass
        return found


class Tails:
    """The same for all files that match a pattern, including later ones."""

    def __init__(self, pattern):
        self.pattern, self.tails = pattern, {}

    def new(self):
        for path in glob.glob(self.pattern):
            yield from self.tails.setdefault(path, Tail(path)).new()


# ---- reading the run

def losses(run):
    """Returns step -> loss of the line that counts, and step -> seconds."""
    found = {}
    for line in properties.lines_of(os.path.join(run, "metrics.jsonl")):
        if "rewind" in line:
            found = {step: value for step, value in found.items() if step < line["rewind"]}
        elif "step" in line:
            found[line["step"]] = (math.nan if line["loss"] is None else line["loss"], line["seconds"])
    return found


def seconds_of_day(event):
    """Returns an event's local time of day in seconds, as in logs."""
    moment = datetime.datetime.fromtimestamp(properties.wall_time(event))
    return moment.hour * 3600 + moment.minute * 60 + moment.second + moment.microsecond / 1e6


def aborted_steps(folder):
    """Returns the generations in which a step was begun but not finished, as reported by survivors."""
    aborted = set()
    for path in glob.glob(os.path.join(folder, "events-*.jsonl")):
        over = [(seconds_of_day(event), event["generation_id"]) for event in properties.lines_of(path)
                if event["event"] == "generation_dissolved"]
        with open(path.replace("events-", "node-").replace(".jsonl", ".log"), encoding="utf-8", errors="replace") as log:
            told = [int(h) * 3600 + int(m) * 60 + float(s) for h, m, s, _ in ABORTED.findall(log.read())]
        for when in told:
            if over:
                aborted.add(min(over, key=lambda each: abs((each[0] - when + 43200) % 86400 - 43200))[1])
    return aborted


def lost_steps(folder, log):
    """Returns the generations whose last member was killed, so that no survivor could report the step."""
    assigned = []
    for path in glob.glob(os.path.join(folder, "events-*.jsonl")):
        assigned += [(properties.wall_time(event), event["generation_id"], {node["host"] for node in event["nodes"]},
                      event["world_size"]) for event in properties.lines_of(path) if event["event"] == "generation_assigned"]
    lost = set()
    for when, what, node in log:
        before = max((each for each in assigned if each[0] < when), key=lambda each: each[0], default=None)
        whole = what in ("agent", "node") or (what == "worker" and before and before[3] == 1)
        if before and whole and before[2] == {f"node{node}"}:
            lost.add(before[1])
    return lost


def regroups(run):
    phases = ["assign", "connect", "state", "first_step"]
    return [sum(line[phase] for phase in phases)
            for line in properties.lines_of(os.path.join(run, "metrics.jsonl")) if "regroup" in line]


def difference(seen, expected):
    """Returns the largest relative difference of two runs' losses; infinite if steps are missing or not finite."""
    if not expected or seen.keys() != expected.keys():
        return math.inf
    apart = [abs(seen[step] - loss) / abs(loss) for step, loss in expected.items()]
    return max(apart) if all(map(math.isfinite, apart)) else math.inf


def compare(run, alone):
    """Returns the largest relative difference of two runs' losses, and the errors."""
    seen, expected = losses(run), losses(alone)
    if seen.keys() != expected.keys():
        return math.inf, [f"{len(seen)} steps recorded, the undisturbed run has {len(expected)}"]
    worst = difference(*({step: loss for step, (loss, _) in each.items()} for each in (seen, expected)))
    return worst, [] if worst <= 1e-9 else [f"losses differ by {worst:.3g}"]


def never_done(args, counts, wall):
    """Yields the requested events that never happened although there was time."""
    failures = counts["worker"] + counts["agent"] + counts["node"]
    for what, mean, count in (("failure", args.interval, failures), ("leave", args.leaves, counts["leave"]),
                              ("kill of the service", args.service_interval, counts["service"])):
        if mean and not count and wall > MOST_INTERVALS * mean:
            yield f"no {what} in {wall:.0f} s: one every {mean:g} s was asked for"


def report(args, training, alone, left, bad_ends):
    """Prints the table; returns whether all is well. `left`: processes, `bad_ends`: bad exits of mtruns, in words."""
    run = os.path.join(training.folder, "run")
    executed = {(line["step"], line["generation"]) for line in properties.lines_of(os.path.join(run, "ledger.jsonl"))
                if "step" in line}
    committed = len(losses(run))
    aborted = aborted_steps(training.folder) | lost_steps(training.folder, training.log)
    attempted = len(executed) + len(aborted)
    wall = training.ended - training.began
    counts = {what: sum(entry[1] == what for entry in training.log) for what in
              ("worker", "agent", "node", "leave", "join", "service")}
    failures = counts["worker"] + counts["agent"] + counts["node"]
    step = statistics.median(seconds for _, seconds in losses(run).values())
    ratio = args.interval / args.step_seconds if args.step_seconds else wall / max(failures, 1) / step
    verdict = subprocess.run([sys.executable, os.path.join(TOOLS, "verify_ledger"), run], capture_output=True, text=True)
    worst, problems = compare(run, alone)
    if left:
        problems.append(f"{len(left)} processes are left: {left}")
    problems += bad_ends + list(never_done(args, counts, wall))
    times = regroups(run)
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; {wall:.0f} s; seed {args.seed}")
    screen.table(["figure", "value", "target"], [
        ["failures: workers, agents, nodes", f"{counts['worker']}, {counts['agent']}, {counts['node']}", "-"],
        ["left, joined, service killed", f"{counts['leave']}, {counts['join']}, {counts['service']}", "-"],
        ["step, mean interval of failures (s)", f"{step:.2f}, {wall / max(failures, 1):.2f}", "-"],
        ["committed / attempted steps", f"{committed} / {attempted} = {100 * committed / attempted:.1f} %",
         f"{'-' if args.regular else f'{97 * math.exp(-1 / ratio):.1f} %'} (r = {ratio:.2f})"],
        ["time goodput", f"{100 * committed * step / wall:.1f} %", "-"],
        ["steps redone (superseded, aborted)", f"{len(executed) - committed}, {len(aborted)}", "-"],
        ["regrouping p50, p99 (s)", f"{screen.quantile(times, 0.5):.2f}, {screen.quantile(times, 0.99):.2f}", "-"],
        ["samples", verdict.stdout.strip().splitlines()[-1] if verdict.stdout else verdict.stderr.strip(), "exactly once"],
        ["largest relative difference of a loss", f"{worst:.2g}", "<= 1e-9"],
    ])
    for problem in problems:
        print("  " + problem)
    return verdict.returncode == 0 and not problems
