"""What the mtruns of a storm have heard of their job, as their event logs tell it."""
import os
import re

import properties
import storm


class Hearing:
    def __init__(self, folder):
        self.events = storm.Tails(os.path.join(folder, "events-*.jsonl"))
        self.newest = ("", [])  # when a membership was heard of, and whose it is
        self.of_job, self.of_end = {}, {}  # host -> when it last heard of the job, of how it ended

    def read(self):
        for event in self.events.new():
            host, kind = event["host"], event["event"]
            if kind == "generation_assigned":
                self.newest = max(self.newest, (event["time"], [each["host"] for each in event["nodes"]]))
            if kind == "generation_assigned" or re.match("spare: |waiting for .* ready again", event.get("text", "")):
                self.of_job[host] = properties.wall_time(event)
            if kind == "job_ended":
                self.of_end[host] = properties.wall_time(event)

    def members(self):
        """The numbers of the nodes of the newest membership that any agent has heard of."""
        self.read()
        return {int(host.removeprefix("node")) for host in self.newest[1]}

    def knows_job(self, node):
        """Whether its mtrun knows of the job: one that does not begins the next run of its id."""
        self.read()
        return self.of_job.get(f"node{node.number}", 0.0) > node.started

    def is_over(self, nodes):
        """Whether one of these has ended and had heard so, or each has ended by itself. One whose workers are done ends
        without a word where no service is, and the others may still wait for it."""
        self.read()
        ended = [node for node in nodes if node.front.poll() == 0]
        return (any(self.of_end.get(f"node{node.number}", 0.0) > node.started for node in ended)
                or (ended and len(ended) == len(nodes)))
