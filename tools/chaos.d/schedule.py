"""What is done to a cluster and when: a function of the seed alone, so that a seed replays."""
import dataclasses
import random

# kind -> what it is, for the closing table
KINDS = {
    "worker": "SIGKILL of a worker",
    "agent": "SIGKILL of mtrun's front, guardian or agent",
    "node": "a whole node loses power",
    "leave": "SIGTERM to a node",
    "freeze": "SIGSTOP of an agent",
    "cut": "a cable is pulled",
    "flap": "a cable is pulled ten times a few seconds",
    "service": "SIGKILL of the rendezvous service",
}


@dataclasses.dataclass
class Fault:
    at: float       # seconds after the job has formed
    kind: str
    node: int       # or the next one that is whole
    lasts: float    # until it is mended: link up, SIGCONT, the node started again
    choice: float   # which worker, which process: a number in [0, 1)
    pauses: list = dataclasses.field(default_factory=list)  # of a flapping cable: seconds down, up, down, ...


def lasts(kind, choose):
    """Some are shorter than what it takes to be noticed, some longer."""
    short = choose.random() < 0.4
    if kind in ("freeze", "cut"):
        return choose.uniform(0.05, 1.0) if short else choose.uniform(2.0, 5.0)
    if kind == "service":
        return choose.uniform(0.0, 0.2) if short else choose.uniform(0.5, 3.0)
    if kind == "worker":
        return 0.0
    return choose.uniform(0.0, 0.5) if short else choose.uniform(1.0, 4.0)


def make(seed, seconds, gap, nodes):
    """Faults over `seconds` with exponential gaps of mean `gap`; every kind as often as the others, in random order."""
    choose = random.Random(seed)
    faults, deck, at = [], [], 0.0
    while True:
        at += max(0.1, choose.expovariate(1 / gap))
        if at >= seconds:
            return faults
        if not deck:
            deck = choose.sample(list(KINDS), len(KINDS))
        kind = deck.pop()
        fault = Fault(at, kind, choose.randrange(nodes), lasts(kind, choose), choose.random())
        if kind == "flap":
            fault.pauses = [choose.uniform(0.05, 0.4) for _ in range(20)]
            fault.lasts = sum(fault.pauses)
        faults.append(fault)
