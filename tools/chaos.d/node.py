"""One machine of a storm and the mtrun on it."""
import os
import signal
import time

import cluster
import properties
import storm

# A node's state, from a fault until it is mended. A node that changes is between two jobs.
DOWN, WHOLE, FROZEN, CUT, GONE = "down", "whole", "frozen", "cut", "gone"
# Exit statuses of a drained mtrun: the others continue the job, or the workers had to be stopped or were the last.
LEFT_WELL = (0, 128 + signal.SIGTERM)


class Node:
    def __init__(self, owner, number):
        self.owner, self.number, self.front, self.state, self.changes = owner, number, None, DOWN, False
        self.started = 0.0  # wall-clock time
        self.environment, self.event_log = {}, f"events-{number}.jsonl"  # variables of its programs; file in the storm's folder

    def start(self):
        """Starts its mtrun for the current job; a cut cable stays cut."""
        owner = self.owner
        args = owner.args
        argv = [os.path.join(args.bin, "mtrun"), "--nnodes", f"{args.min_nodes}:{args.nodes}", "--nproc_per_node",
                str(args.per_node), "--rdzv_endpoint", owner.services.endpoints(), "--rdzv_id", "chaos", "--node_rank",
                str(self.number), "--max_restarts", "1000000", "--rdzv_conf", owner.conf(), "--shutdown_timeout",
                str(owner.SHUTDOWN_SECONDS), "--event_log", os.path.join(owner.folder, self.event_log),
                "--log_dir", os.path.join(owner.logs, f"logs-{self.number}")] + owner.program(self)
        environment = {**owner.environment, **self.environment, "MTRUN_CHAOS_JOB": str(owner.job)}
        self.front = owner.cluster.start(self.number, argv, self.log(), environment)
        self.changes, self.started = False, time.time()
        if self.state != CUT:
            self.state = WHOLE

    def log(self):
        return os.path.join(self.owner.folder, f"node-{self.number}.log")

    def last_words(self, lines=8):
        """Returns the end of its log, to be shown below a problem."""
        with open(self.log(), encoding="utf-8", errors="replace") as file:
            return "".join(f"\n      {line.rstrip()[:properties.MOST_COLUMNS]}" for line in file.readlines()[-lines:])

    def agent(self):
        return cluster.agent(self.front.pid) if self.front else None

    def workers(self):
        return storm.children(self.agent())

    def runs(self):
        """Returns whether its mtrun should run, even if a fault affects it."""
        return self.state not in (DOWN, GONE) and not self.changes


class Late:
    """An mtrun of a job that has ended: it must exit with 0 soon after it can learn of that."""

    def __init__(self, node, job, record):
        self.node, self.job, self.front = node, job, node.front
        self.record = record or {"to": 0.0}
        self.since = time.monotonic()  # the time since which it can learn of the end

    def deaf(self, now):
        """Returns whether a fault keeps it from learning."""
        return now < self.record["to"] or self.node.state == CUT
