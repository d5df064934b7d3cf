"""The faults of a cluster and their times: a function of the seed alone, so that a seed can be replayed."""
import dataclasses
import random

FENCE_SECONDS = 4.0  # fence_timeout in a storm

# kind -> description, for the closing table
KINDS = {
    "worker": "SIGKILL of a worker",
    "agent": "SIGKILL of mtrun's front, guardian or agent",
    "node": "a whole node loses power",
    "leave": "SIGTERM to a node",
    "freeze": "SIGSTOP of an agent",
    "cut": "a cable is pulled",
    "flap": "a cable is pulled ten times a few seconds",
    "uplink": "several nodes lose what is beyond their switch: the service, the spares",
    "disk": "the disk of the logs and runs is full",
    "reuse": "the job ends and the next one has its id; a node of the first is late",
    "service": "SIGKILL of the rendezvous service",
    "away": "the service is away for longer than a lease",
    "gone": "a node that hosts a service never comes back",
}
ONE_SERVICE, LIST = ("service", "away"), ("gone",)
AT_MOST_ONCE = ("gone",)
# Not scheduled, but caused by other faults; the frequency depends on the nodes' speed.
FOLLOWS = ("spare",)


@dataclasses.dataclass
class Fault:
    at: float       # seconds after the job has formed
    kind: str
    node: int       # or the next whole node
    lasts: float    # until it is mended: link up, SIGCONT, the node started again
    choice: float   # which worker, which process: a number in [0, 1)
    pauses: list = dataclasses.field(default_factory=list)  # for a flapping cable: seconds down, up, down, ...


def kinds_for(setting, without=()):
    """Returns the kinds that are possible with a setting of services."""
    never = {"one": LIST, "list": ONE_SERVICE}.get(setting, ONE_SERVICE + LIST)
    return [kind for kind in KINDS if kind not in never and kind not in without]


def lasts(kind, choose):
    """Returns a duration; some are too short to be noticed."""
    short = choose.random() < 0.4
    if kind == "away":
        return FENCE_SECONDS + choose.uniform(1.0, 3.0)
    if kind == "uplink":
        return choose.uniform(0.5, 3.0) if short else FENCE_SECONDS + choose.uniform(1.5, 4.0)
    if kind in ("disk", "reuse"):
        return choose.uniform(1.0, 6.0)
    if kind in ("freeze", "cut"):
        return choose.uniform(0.05, 1.0) if short else choose.uniform(2.0, 5.0)
    if kind == "service":
        return choose.uniform(0.0, 0.2) if short else choose.uniform(0.5, 3.0)
    if kind in ("worker", "gone"):
        return 0.0
    return choose.uniform(0.0, 0.5) if short else choose.uniform(1.0, 4.0)


def make(seed, seconds, gap, nodes, kinds, each=0):
    """Returns faults over `seconds` with exponential gaps of mean `gap`, or shorter ones to get `each` of every kind.
    All kinds are equally frequent, in random order. Unique faults happen after half of the time."""
    choose = random.Random(seed)
    faults = [Fault(seconds / 2, kind, choose.randrange(nodes), 0.0, choose.random())
              for kind in kinds if kind in AT_MOST_ONCE]
    kinds, deck, at = [kind for kind in kinds if kind not in AT_MOST_ONCE], [], 0.0
    fewest = len(faults) + each * len(kinds)
    while True:
        at += max(0.1, choose.expovariate(1 / gap))
        if at >= seconds and len(faults) >= fewest:
            for fault in faults:
                fault.at *= seconds / max(at, seconds)
            return sorted(faults, key=lambda fault: fault.at)
        if not deck:
            deck = choose.sample(kinds, len(kinds))
        kind = deck.pop()
        fault = Fault(at, kind, choose.randrange(nodes), lasts(kind, choose), choose.random())
        if kind == "flap":
            fault.pauses = [choose.uniform(0.05, 0.4) for _ in range(20)]
            fault.lasts = sum(fault.pauses)
        faults.append(fault)


def scarce(counts, kinds, each):
    """Returns the kinds that fired less than once, or less than `each` times if the plan can make them frequent."""
    return [f"{kind} ({counts[kind]})" for kind in kinds
            if counts[kind] < (min(each, 1) if kind in AT_MOST_ONCE + FOLLOWS else each)]
