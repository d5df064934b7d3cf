"""What a storm's mtruns know of their job, according to their event logs."""
import os
import re

import properties
import storm


class Hearing:
    def __init__(self, folder):
        self.events = storm.Tails(os.path.join(folder, "events-*.jsonl"))
        self.newest = ("", [])  # time and hosts of the newest membership
        self.of_job, self.of_end = {}, {}  # host -> when it last learnt of the job, of its outcome

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
        """Returns the numbers of the nodes of the newest membership that any agent knows."""
        self.read()
        return {int(host.removeprefix("node")) for host in self.newest[1]}

    def knows_job(self, node):
        """Returns whether its mtrun knows of the job; if not, it starts the next run of that id."""
        self.read()
        return self.of_job.get(f"node{node.number}", 0.0) > node.started

    def is_over(self, nodes):
        """Returns whether one of these has ended after learning the outcome, or each has ended. Without a service, an
        mtrun whose workers are done ends silently, and the others may still wait for it."""
        self.read()
        ended = [node for node in nodes if node.front.poll() == 0]
        return (any(self.of_end.get(f"node{node.number}", 0.0) > node.started for node in ended)
                or (ended and len(ended) == len(nodes)))
