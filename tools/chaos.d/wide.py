"""The wide storm: it also freezes nodes beyond their lease, kills those that continued, and breaks clocks, cables and disks."""
import collections
import json
import math
import os
import signal
import time

import cluster
import faults
import kept
import preload
import properties
import runs
import schedule
import screen
import train_storm
import wide_plan
import wide_runs
import wire
from node import CUT, DOWN, FROZEN, GONE, LEFT_WELL, WHOLE

HOLD_SECONDS = 3.0       # a cold start that waits for all nodes to be whole holds other faults back for this long
EMPTY_SECONDS = 4.0      # delay of a node without a checkpoint after the first one that has one
FORGOTTEN_SECONDS = 90.0  # after the death of a service's host a node may be refused as one of an earlier run
STUCK_SECONDS = 25.0     # time without a new step: other faults wait until there is one
DRAIN_SECONDS = 15.0     # bound on the end of a drained mtrun, beyond the workers' grace, after its cable is back
KILLS = ("agent", "node", "leave", "drain", "gone")


class WideStorm(train_storm.TrainStorm):
    DISK_MIB = 96
    LEARNING_RATE = "0.003"  # low, because the relative error of a loss near 0 is large
    PATIENCE_SECONDS = 60.0  # without a new step and without a fault

    def __init__(self, args, setting, minutes):
        self.kept = kept.Kept()
        super().__init__(args, setting, minutes)
        self.preload, self.wire = preload.Preload(self.folder, args.bin), wire.Wire(self.cluster)
        self.left_out = {kind: self.preload.why_not for kind in ("clock",) if self.preload.why_not}
        self.left_out |= {kind: self.wire.why_not for kind in ("oneway", "loss", "corrupt") if self.wire.why_not}
        self.event_logs = wide_runs.EventLogs(self.folder, len(self.nodes), self.preload)
        for node in self.nodes:
            node.event_log = self.event_logs.name(node.number)
        if not self.preload.why_not:
            self.services.environment = {**self.environment, **self.preload.environment(cluster.HUB)}
            for node in self.nodes:
                node.environment = self.preload.environment(node.number)
        self.planned, self.hold_until = 0.0, 0.0
        self.dropped, self.standing = collections.Counter(), {}  # node -> its last stall
        self.forgotten = 0  # nodes refused since the job's only service was killed
        self.pauses_told = []  # seconds from the return of the cable to the end of each drained mtrun
        for kind, why in self.left_out.items():
            print(f"{setting}: without {kind}: {why}", flush=True)

    def watch(self):
        self.kept.add(self.run_folders())
        return wide_runs.Watch(self.run_folders(), time.monotonic())

    # ---- schedule

    def wide_kinds(self):
        without = self.args.without.split(",")
        return [kind for kind in wide_plan.KINDS if kind not in without and kind not in self.left_out]

    def kinds(self):
        return super().kinds() + self.wide_kinds()

    def plan(self, seconds):
        self.planned = time.monotonic()
        return (schedule.make(self.args.seed, seconds, self.args.gap, len(self.nodes), super().kinds(), self.args.each)
                + wide_plan.make(self.args.seed, seconds, len(self.nodes), self.wide_kinds(), self.args.each))

    def fire(self, fault):
        if self.stop:
            return
        now = time.monotonic()
        if isinstance(fault, wide_plan.Fault) and now > self.planned + fault.until:
            self.dropped[fault.kind] += 1
        elif not self.fits(fault) or (now < self.hold_until and fault.kind not in ("cold",) + faults.HURTS_WORKERS):
            self.later(0.2 + fault.choice, lambda: self.fire(fault))
        else:
            if fault.kind == "cold":
                self.hold_until = now + HOLD_SECONDS
            super().fire(fault)

    def fits(self, fault):
        """Returns whether the run is likely to last longer than the fault."""
        left = (self.args.steps - train_storm.CALM_STEPS - self.watched[-1].steps) * (self.args.step_seconds or 0.1)
        return not isinstance(fault, wide_plan.Fault) or fault.kind == "clock" or left > fault.lasts

    def stuck_since(self, now):
        """Returns since when the run has made no step although nothing was wrong."""
        return max([self.last_step, *(min(fault["to"], now) for fault in self.fired if fault["kind"] != "gone")])

    def possible(self, kind):
        if time.monotonic() - self.last_step > STUCK_SECONDS:
            return False
        if kind == "cold":
            return not self.ending and not self.late and not self.wants_calm and not self.lasting()
        if kind == "clock":
            return not self.ending
        return super().possible(kind)

    def victim(self, fault, fits=lambda node: True):
        """Spares the last node with a checkpoint in its own folder: without one, the job would start over."""
        def is_not_last(node):
            return self.folders == "shared" or any(self.has_saved(other) for other in self.whole() if other is not node)
        return super().victim(fault, lambda node: fits(node) and (fault.kind not in KILLS or is_not_last(node)))

    def is_spared(self, node, kind):
        return super().is_spared(node, "leave" if kind == "drain" else kind)

    def folder_of(self, node):
        return self.run_folders()[node.number % len(self.disks)]

    def has_saved(self, node):
        return self.kept.furthest(self.folder_of(node)) > (0, 0)

    def next_job(self):
        """Gives nodes that were frozen when the job ended until their thaw to learn of it."""
        super().next_job()
        for late in self.late:
            if late.record.get("node") != late.node.number:
                late.record = self.standing.get(late.node.number, late.record)

    def turn(self):
        self.event_logs.copy()
        super().turn()
        self.wants_calm = self.watched[-1].steps >= self.args.steps - train_storm.CALM_STEPS

    # ---- whole nodes

    def kill(self, nodes):
        """Kills all processes of these nodes with one pass over the process table, then any that are left."""
        numbers = {f"{self.cluster.tag}-{node.number}" for node in nodes}
        for pid, mark in cluster.marks().items():
            if mark in numbers:
                cluster.send(pid, signal.SIGKILL)
        for node in nodes:
            self.cluster.set_link(node.number, False)
            self.cluster.kill_all(node.number)
            node.state = DOWN

    def start_in(self, nodes, pauses, first=0.5):
        """Schedules the starts of these nodes in this order; returns the time of the last one."""
        begin = at = time.monotonic() + first
        for node, pause in zip(nodes, pauses):
            at += pause
            if not self.has_saved(node):
                at = max(at, begin + EMPTY_SECONDS)
            self.later(at - time.monotonic(), lambda node=node: self.join(node, {"to": 0.0}))
        return at

    def start_order(self, nodes, fault):
        """Returns a random order; in half of the cases the furthest disk comes last. Nodes without checkpoints follow."""
        shuffled = sorted(nodes, key=lambda node: hash((fault.at, fault.choice, node.number)))
        if fault.choice < 0.5:
            shuffled.sort(key=lambda node: self.kept.furthest(self.folder_of(node)))
        return sorted(shuffled, key=lambda node: not self.has_saved(node))

    def do_cold(self, fault):
        nodes = [node for node in self.nodes if node.state != GONE]
        if len(self.whole()) < len(nodes) or not any(map(self.has_saved, nodes)):
            return False
        order = self.start_order(nodes, fault)
        record = self.record("cold", 0.0, nodes=[node.number for node in order], ended=[node.number for node in order])
        self.kill(nodes)
        if self.services.process and fault.choice % 0.25 < 0.125:
            self.services.kill()
            self.later(0.2, self.services.start)
        record["to"] = self.start_in(order, fault.pauses, fault.lasts)
        self.hold_until = 0.0
        return True

    def do_stall(self, fault):
        if not (node := self.loser(fault)):
            return False
        record = self.record("stall", fault.lasts, node=node.number, killed=[], ended=[])
        record["ended"] += [node.number] if fault.lasts > schedule.FENCE_SECONDS else []
        self.standing[node.number] = record
        for _ in range(3):  # to catch processes that were just started
            for pid in self.cluster.processes(node.number):
                cluster.send(pid, signal.SIGSTOP)
        node.state = FROZEN
        watch = self.watched[-1]
        then = (watch.current, watch.steps, node.front)
        if self.folders == "shared" and fault.choice > 0.8:
            self.later(fault.lasts / 2, lambda: self.kill_members(node, record, fault))
        self.later(fault.lasts, lambda: self.thaw(node, record, fault, then))
        return True

    def kill_members(self, frozen, record, fault):
        """Kills the members of the generation that continued; spares take their places."""
        members = self.hearing.members()
        nodes = [node for node in self.whole() if node.number in members and node is not frozen]
        if len(nodes) < len(self.whole()):
            self.kill_others(nodes, record, fault)

    def kill_others(self, nodes, record, fault):
        self.kill(nodes)
        record["killed"] += [node.number for node in nodes]
        record["ended"] += [node.number for node in nodes]
        return self.start_in(self.start_order(nodes, fault), fault.pauses, 0.5 + fault.choice * 4)

    def thaw(self, node, record, fault, then):
        """Continues the frozen node; in most cases the others have saved newer steps by then, and are killed first."""
        now, (generation, steps, front) = time.monotonic(), then
        watch, kills = self.watched[-1], fault.choice >= wide_plan.NOBODY_DIES
        went_on = watch.current != generation and watch.steps > steps + 3
        if kills and fault.lasts > schedule.FENCE_SECONDS and not went_on and not self.ending and (
                now < record["from"] + wide_plan.MOST_FROZEN_SECONDS):
            record["to"] = now + 1.0
            self.later(1.0, lambda: self.thaw(node, record, fault, then))
            return
        record["went_on"] = went_on and [generation, steps, watch.current, watch.steps]
        others = [other for other in self.whole() if other is not node]
        if kills and others and not self.ending and not self.late:
            self.kill_others(others, record, fault)
        for pid in self.cluster.processes(node.number):
            cluster.send(pid, signal.SIGCONT)
        record["to"] = time.monotonic()
        if node.front is front and node.state == FROZEN:
            node.state = WHOLE

    # ---- clocks

    def do_clock(self, fault):
        nodes = [node.number for node in self.nodes if node.state != GONE] + [cluster.HUB] * (self.services.process is not None)
        number = nodes[int(fault.choice * len(nodes))]
        self.preload.move_clock(number, 0 if fault.choice * 10 % 1 < 0.15 else int(fault.amount))
        self.record("clock", 0.0, node=None if number == cluster.HUB else number, seconds=self.preload.ahead[number][-1])
        for node in self.whole():
            if any(not self.preload.is_loaded(pid) for pid in node.workers()):
                self.problems.append(f"node{node.number}: a worker runs without the clock that the storm moves")
        return True

    # ---- cables

    def do_oneway(self, fault):
        if not (node := self.victim(fault)):
            return False
        others = [other for other in self.whole() if other is not node]
        if fault.choice < 0.7 or not others:
            record, states = self.record("oneway", fault.lasts, node=node.number, sends=fault.choice < 0.35), [node]
            mends = [self.wire.break_it(node.number, fault.choice < 0.35, wire.all_lost())]
        else:
            other = others[int(fault.choice * 100) % len(others)]
            record, states = self.record("oneway", fault.lasts, nodes=[node.number, other.number]), [node, other]
            mends = [self.wire.break_it(node.number, True, wire.lost_towards(self.cluster.address(other.number)))]
        for each in states:
            each.state = CUT
        self.mend_wire_later(record, mends, states)
        return True

    def mend_wire_later(self, record, mends, states=()):
        def mend():
            for each in mends:
                each()
            record["to"] = time.monotonic()
            for node in states:
                node.state = WHOLE
        self.later(record["to"] - time.monotonic(), mend)

    def do_loss(self, fault):
        if not (node := self.victim(fault)):
            return False
        record = self.record("loss", fault.lasts, node=node.number, percent=fault.amount)
        self.mend_wire_later(record, [self.wire.break_it(node.number, sends, wire.some_lost(fault.amount))
                                      for sends in (True, False)])
        return True

    def do_corrupt(self, fault):
        if not (node := self.victim(fault)):
            return False
        record = self.record("corrupt", fault.lasts, node=node.number, percent=fault.amount)
        rule = wire.some_changed(fault.amount, 8 * (40 + int(fault.choice * 40)))
        self.mend_wire_later(record, [self.wire.break_it(node.number, sends, rule) for sends in (True, False)])
        return True

    # ---- disks

    def disk_of(self, fault):
        number = int(fault.choice * len(self.disks))
        return number, self.disks[number]

    def do_disk(self, fault):
        return not self.disk_of(fault)[1].read_only and super().do_disk(fault)

    def do_readonly(self, fault):
        number, disk = self.disk_of(fault)
        if disk.is_full() or disk.read_only:
            return False
        record = self.record("readonly", fault.lasts, disk=number)
        self.refuse(number, disk, True)

        def mend():
            self.refuse(number, disk, False)
            record["to"] = time.monotonic()

        self.later(fault.lasts, mend)
        return True

    def refuse(self, number, disk, read_only):
        device = disk.device()
        disk.set_read_only(read_only)
        for node in self.nodes:
            if node.number % len(self.disks) == number and not self.preload.why_not:
                self.preload.refuse(node.number, device if read_only else 0)

    # ---- a drain of a disconnected node

    def do_drain(self, fault):
        if not (node := self.loser(fault)):
            return False
        record = self.record("drain", fault.lasts, node=node.number, ended=[node.number])
        self.cluster.set_link(node.number, False)
        node.state = DOWN
        self.later(fault.amount, lambda: cluster.send(node.front.pid, signal.SIGTERM))

        def mend():
            self.cluster.set_link(node.number, True)
            record["to"] = time.monotonic()
            self.drained(node, record)

        self.later(fault.lasts, mend)
        return True

    def drained(self, node, record):
        """Checks the exit status of a drained mtrun and starts the node again, or reports that it does not end."""
        now, bound = time.monotonic(), self.SHUTDOWN_SECONDS + DRAIN_SECONDS
        if (self.ending and self.whole()) or self.cluster.processes(node.number):
            if now > record["to"] + bound and not record.get("told"):
                record["told"] = True
                self.problems.append(f"node{node.number}: mtrun was told to go while it was cut off and has not ended "
                                     f"{bound:.0f} s after its cable is back{node.last_words()}")
            self.later(0.1, lambda: self.drained(node, record))
            return
        status = node.front.wait()
        self.pauses_told.append(now - record["to"])
        if status not in LEFT_WELL and not self.is_forgotten(node, status):
            self.problems.append(f"node{node.number}: mtrun was told to go while it was cut off and ended with {status}"
                                 f"{node.last_words()}")
        node.start()
        self.record("join", 0.0, node=node.number)

    # ---- the life of the storm, and the verdict

    def is_forgotten(self, node, status):
        """Returns whether an mtrun was refused because a service killed with its host has lost the job. The message
        asks to start it again, as the storm does."""
        killed = any(set(fault.get("ended", ())) & set(self.services.hosts) for fault in self.fired
                     if time.monotonic() < fault["to"] + FORGOTTEN_SECONDS)
        if status != 1 or not killed or "another run of the job" not in node.last_words():
            return False
        self.forgotten += 1
        return True

    def is_refused(self, node, status):
        """Returns whether a worker ended at its start because a disk that is read-only has no run in its folder to wait for, or
        because another node's worker ended so."""
        others = (other.last_words() for other in self.nodes)
        words = node.last_words() if self.folders == "own" else " ".join([node.last_words(), *others])
        return (status == 2 and "Read-only file system" in words and not self.has_saved(node)
                and not os.path.exists(os.path.join(self.folder_of(node), "ledger.jsonl")))

    def ended_by_itself(self, node):
        status = node.front.returncode
        if not self.is_forgotten(node, status) and not self.is_refused(node, status):
            super().ended_by_itself(node)
            return
        node.state = DOWN
        self.later(1.0, lambda: self.join(node, {"to": 0.0}))

    def run(self):
        """Reports on the disks and ledgers even if the storm cannot continue."""
        self.kept.start()
        try:
            super().run()
        except RuntimeError as error:
            self.problems.append(str(error))
            self.cluster.kill_all()
        finally:
            self.kept.stop()
            self.event_logs.copy()

    def report(self):
        offset = time.time() - time.monotonic()
        with open(os.path.join(self.folder, "faults.json"), "w", encoding="utf-8") as file:
            json.dump({"wall_minus_monotonic": offset, "over": self.over, "faults": self.fired,
                       "began": [watch.first for watch in self.watched]}, file)
        alone, evidence = self.run_alone(), properties.Evidence(self.folder, offset)
        over = [0.0] + [self.over.get(job, math.inf) for job in range(len(self.watched))]
        found = []
        for job, watch in enumerate(self.watched):
            watch.finished = job in self.over
            found.append(wide_runs.verdict(self, watch, evidence, runs.losses([alone]), alone, over[job: job + 2]))
        self.print_table(found)
        problems = self.problems + [f"run {number}: {problem}" for number, each in enumerate(found) for problem in each.problems]
        for problem in problems[:30]:
            print("  " + problem)
        scarce = schedule.scarce(self.counts(), list(self.counts()), self.args.each)
        if scarce:
            print(f"fewer than {self.args.each} of: {', '.join(scarce)}")
        return problems + scarce

    def print_table(self, found):
        counts, stalls = self.counts(), [fault for fault in self.fired if fault["kind"] == "stall"]
        print(f"{self.setting}: {sum(counts.values())} faults in {self.minutes:.1f} minutes, seed {self.args.seed}, "
              f"{len(found)} runs of {self.args.steps} steps; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; "
              f"{self.kept.looks} looks at the disks")
        known = {**schedule.KINDS, **wide_plan.KINDS}
        screen.table(["kind", "fired", "dropped", "what"],
                     [[kind, count, self.dropped[kind] or "-", known[kind]] for kind, count in counts.items()])
        beyond = [fault for fault in stalls if fault.get("went_on")]
        errors = 0 if self.wire.why_not else self.wire.checksum_errors()
        print(f"  stalls: {sum(bool(fault['killed']) for fault in beyond)} of {len(stalls)} killed nodes that had continued; "
              f"packets that were changed and refused: {errors}; longest end of a drained mtrun after its cable was back: "
              f"{max(self.pauses_told, default=0.0):.1f} s; nodes refused because their service was killed: {self.forgotten}")
        screen.table(wide_runs.HEAD, [[number, *each.row] for number, each in enumerate(found)])
