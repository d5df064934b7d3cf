"""The schedule of the faults of a wide storm: a function of the seed alone."""
import dataclasses
import random

import schedule

MOST_FROZEN_SECONDS = 40.0
NOBODY_DIES = 0.2  # a stall with a lower choice kills no node

# kind -> description, for the closing table
KINDS = {
    "stall": "SIGSTOP of a whole node, mostly beyond its lease; the nodes that continued are killed as it returns",
    "cold": "all nodes lose power and start in any order, also with the furthest disk last",
    "clock": "the wall clock of a node or of the service jumps, by seconds or by days",
    "oneway": "a cable loses one direction, or one node's packets to one other node are lost",
    "loss": "5 to 30 % of a node's packets are lost",
    "corrupt": "1 to 10 % of a node's packets are changed on the way",
    "readonly": "the disk of the runs refuses all writes",
    "drain": "a node is told to go while its cable is out",
}
# Mean seconds between two faults of a kind. A fault that is not possible before the next one is due is dropped.
EVERY = {"stall": 40.0, "cold": 100.0, "clock": 40.0, "oneway": 60.0, "loss": 75.0, "corrupt": 75.0, "readonly": 75.0,
         "drain": 75.0}


@dataclasses.dataclass
class Fault(schedule.Fault):
    until: float = 0.0   # when it is dropped, in seconds like `at`
    amount: float = 0.0  # clock: seconds; loss, corrupt: per cent; drain: seconds from the cut to SIGTERM


def stall(number, choose):
    """Returns (seconds, choice). Of three stalls two last longer than the lease and kill the nodes that continued."""
    if number % 3 == 2:
        return choose.uniform(2.0, MOST_FROZEN_SECONDS), choose.uniform(0.0, NOBODY_DIES)
    low, high = choose.choice(((6.0, 12.0), (6.0, 12.0), (12.0, MOST_FROZEN_SECONDS)))
    return choose.uniform(low, high), choose.uniform(NOBODY_DIES, 1.0)


def lasts(kind, choose):
    low, high = {"cold": (0.5, 4.0), "clock": (0.0, 0.0), "oneway": (1.0, 12.0), "loss": (3.0, 12.0), "corrupt": (3.0, 12.0),
                 "readonly": (2.0, 8.0), "drain": (4.0, 12.0)}[kind]
    return choose.uniform(low, high)


def amount(kind, choose):
    if kind == "clock":
        return choose.choice((-1, 1)) * round(10 ** choose.uniform(0.8, 5.2))
    return choose.uniform(*{"loss": (5.0, 30.0), "corrupt": (1.0, 10.0), "drain": (0.0, 2.5)}.get(kind, (0.0, 0.0)))


def make(seed, seconds, nodes, kinds, each=0):
    """Returns faults of these kinds over `seconds`, at least `each` of every kind."""
    faults = []
    for kind in kinds:
        choose = random.Random(f"{seed} {kind}")
        period = min(EVERY[kind], seconds / (each or 1))
        at, number = choose.uniform(0.1, 0.6) * period, 0
        while at < seconds:
            after = at + choose.uniform(0.7, 1.3) * period
            how_long, choice = stall(number, choose) if kind == "stall" else (lasts(kind, choose), choose.random())
            faults.append(Fault(at, kind, choose.randrange(nodes), how_long, choice,
                                [choose.choice((0.0, choose.uniform(0.0, 4.0))) for _ in range(nodes)], after,
                                amount(kind, choose)))
            at, number = after, number + 1
    return sorted(faults, key=lambda fault: fault.at)
