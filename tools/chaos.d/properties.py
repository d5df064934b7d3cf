"""The properties of a run, checked with the agents' event logs and the workers' own records."""
import collections
import datetime
import glob
import json
import math
import os
import re

MOST_COLUMNS = 200    # maximum width of a log line shown
BLAME_SECONDS = 15.0  # how long after its repair a fault can still be blamed
# Reasons that do not name the affected node: a broken group, or events missed while the node or the service was away.
HEARSAY = ("cannot go on with the others", "broke the collectives", "the job has left", "reports the higher",
           "no longer runs it", "exit code 75, log")  # toy.py: its group is broken


def lines_of(path):
    """Yields JSON lines; skips a killed writer's partial last line."""
    with open(path, "rb") as file:
        for line in file:
            try:
                yield json.loads(line)
            except ValueError:
                pass


def wall_time(event):
    return datetime.datetime.fromisoformat(event["time"].replace("Z", "+00:00")).timestamp()


class Evidence:
    """All logs and records. Times are from the monotonic clock."""

    def __init__(self, folder, wall_minus_monotonic):
        self.records = []  # from the workers
        for path in glob.glob(os.path.join(folder, "records", "*.jsonl")):
            self.records += lines_of(path)
        self.records.sort(key=lambda record: record["t"])
        self.events = []  # from the agents
        for path in glob.glob(os.path.join(folder, "events-*.jsonl")):
            for event in lines_of(path):
                self.events.append({**event, "t": wall_time(event) - wall_minus_monotonic})
        self.events.sort(key=lambda event: event["t"])

    def of(self, kind):
        return [record for record in self.records if record["kind"] == kind]

    def events_of(self, kind):
        return [event for event in self.events if event["event"] == kind]


def ranks_are_unique(evidence):
    """Checks that within a generation each rank belongs to one process, and the world has one size."""
    holder, size = {}, {}
    for record in evidence.of("enter"):
        generation, who = record["generation"], (record["host"], record["pid"])
        other = holder.setdefault((generation, record["rank"]), who)
        if other != who:
            yield f"generation {generation}: rank {record['rank']} is held by {other} and by {who}"
        if size.setdefault(generation, record["world"]) != record["world"]:
            yield f"generation {generation}: world size {size[generation]} and {record['world']}"


def one_generation_lives(evidence):
    """Checks that no two generations commit at the same time."""
    last, closed = None, set()
    for record in evidence.of("commit"):
        generation = record["generation"]
        if generation == last:
            continue
        if generation in closed:
            yield f"generation {generation} commits step {record['step']} after a later one has"
        if last:
            closed.add(last)
        last = generation


def ended_jobs_rest(evidence, over):
    """Checks that finished jobs take no step. `over`: job -> when the first of its mtruns exited with 0."""
    for record in evidence.of("commit"):
        if record["t"] > over.get(record.get("job"), math.inf):
            yield f"job {record['job']} has ended, generation {record['generation']} of it commits step {record['step']}"


def starts_belong(evidence):
    """Checks that every worker that ran was started for one generation, by its agent, as one of its local ranks."""
    ordered = collections.Counter()
    for event in evidence.events_of("workers_started"):
        for local_rank in event["local_ranks"]:
            ordered[(event["host"], event["generation_id"], local_rank)] += 1
    seen = collections.Counter((record["host"], record["generation"], record["local_rank"])
                               for record in evidence.of("start"))
    for key, count in seen.items():
        if count > ordered[key]:
            yield f"{count} workers started as (host, generation, local rank) {key}, its agent ordered {ordered[key]}"
    for key, count in ordered.items():
        if count > 1:
            yield f"an agent ordered {count} workers as (host, generation, local rank) {key}"


def blamed_until(fault):
    """Returns until when a fault can be blamed; a node that never returns counts from its removal."""
    return (fault["from"] if fault.get("kind") == "gone" else fault["to"]) + BLAME_SECONDS


def alarms_have_causes(evidence, faults):
    """Checks that each dissolution has a recent fault of a node that its reason names, or of a service's host."""
    for event in evidence.events_of("generation_dissolved"):
        nodes = {int(number) for number in re.findall(r"\bnode(\d+)\b", event["reason"])}
        anybody = any(text in event["reason"] for text in HEARSAY)
        if not any(fault["from"] - 0.1 <= event["t"] <= blamed_until(fault)
                   and (anybody or fault.get("anybody") or nodes & set(fault.get("nodes", [fault["node"]]))) for fault in faults):
            yield f"generation {event['generation']} dissolved without a cause: {event['reason']}{last_words(event['reason'])}"


def last_words(reason, most=5):
    """Returns the end of the log of the worker that the reason names."""
    named = re.search(r"\blog \w+:(\S+?)[;,]?(?:\s|$)", reason)
    try:
        with open(named.group(1), errors="replace") as log:
            return "".join(f"\n    {line.rstrip()[:MOST_COLUMNS]}" for line in log.readlines()[-most:])
    except (AttributeError, OSError):
        return ""


def spares_used(evidence, faults):
    """Returns how often a spare replaced a dead member, that is a node that was not in the generation before."""
    assigned = {}
    for event in evidence.events_of("generation_assigned"):
        assigned.setdefault(event["generation_id"], (event["t"], {node["host"] for node in event["nodes"]}))
    found, memberships = 0, sorted(assigned.values(), key=lambda each: each[0])
    for (began, before), (ended, after) in zip(memberships, memberships[1:]):
        dead = {f"node{fault['node']}" for fault in faults
                if fault["kind"] in ("agent", "node", "gone") and began <= fault["from"] <= ended}
        found += min(len(dead & before - after), len(after - before))
    return found


def pauses(evidence, faults, detection=2.5):
    """Returns kind -> the longest time without a commit during or after each of its faults."""
    times = [record["t"] for record in evidence.of("commit")]
    found = collections.defaultdict(list)
    for fault in faults:
        longest = 0.0
        for before, after in zip(times, times[1:]):
            if after >= fault["from"] and before <= fault["from"] + detection:
                longest = max(longest, after - before)
        found[fault["kind"]].append(longest)
    return found


def check(evidence, faults, over):
    """Returns [(property, number of observations, violations)]."""
    generations = len({record["generation"] for record in evidence.of("enter")})
    commits = evidence.of("commit")
    return [
        ("a rank is one worker's", f"{generations} generations", list(ranks_are_unique(evidence))),
        ("one generation lives at a time", f"{len(commits)} commits", list(one_generation_lives(evidence))),
        ("every start belongs to one generation", f"{len(evidence.of('start'))} starts", list(starts_belong(evidence))),
        ("a job that has ended takes no step", f"{len(over)} jobs", list(ended_jobs_rest(evidence, over))),
        ("no alarm without a fault", f"{len(evidence.events_of('generation_dissolved'))} notices",
         list(alarms_have_causes(evidence, faults))),
    ]
