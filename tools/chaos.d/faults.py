"""The faults of a job's nodes and their repair, and consecutive jobs under one id."""
import heapq
import itertools
import shutil
import signal
import time

import cluster
import hearing
from node import CUT, DOWN, FROZEN, GONE, LEFT_WELL, WHOLE, Late, Node

END_SECONDS = 20.0    # bound on the end of an mtrun that can learn that the work is done
FORM_SECONDS = 30.0   # bound on forming, at the start, after the last fault and after a job has ended
CALM_SECONDS = 5.0    # until all nodes are with the service again
BACK_SECONDS = 1.5    # the same if it remembers the job
MOST_AT_ONCE = 2      # simultaneous lasting faults, so that the job can still run
HURTS_WORKERS = ("worker",)
KILLS_HOST = ("agent", "node", "leave")


class Faults:
    """A cluster under a schedule. A subclass defines what nodes run (`program`), and when a job's work is done."""

    SHUTDOWN_SECONDS = 3

    def __init__(self, args, machines, services, disks):
        self.args, self.cluster, self.services, self.disks = args, machines, services, disks
        self.folder = services.folder
        self.hearing = hearing.Hearing(self.folder)
        self.nodes = [Node(self, number) for number in range(machines.count)]
        self.todo, self.order = [], itertools.count()  # a heap of (when, number, what)
        self.fired = []  # {"kind", "node" or "nodes", "from", "to"}
        self.problems, self.late = [], []
        self.job, self.ending, self.over = 0, None, {}  # its number, the time since which it ends, job -> end time
        self.late_record, self.wants_calm = None, False

    def later(self, seconds, what):
        heapq.heappush(self.todo, (time.monotonic() + seconds, next(self.order), what))

    def schedule(self, faults, after):
        for fault in faults:
            self.later(after + fault.at, lambda fault=fault: self.fire(fault))

    def record(self, kind, lasts, began=None, **where):
        """`began`: the start of a fault that is recorded afterwards; else it begins now."""
        now = time.monotonic()
        fault = {"kind": kind, "node": None, "from": began or now, "to": now + lasts, **where}
        fault["anybody"] = bool(set(fault.get("nodes", [fault["node"]])) & set(self.services.hosts))
        self.fired.append(fault)
        return fault

    def whole(self):
        return [node for node in self.nodes if node.state == WHOLE and not node.changes and node.agent()]

    def fire(self, fault):
        """Fires the fault now, or soon after a suitable target exists."""
        if not self.possible(fault.kind) or not getattr(self, "do_" + fault.kind)(fault):
            self.later(0.1 + fault.choice, lambda: self.fire(fault))

    def possible(self, kind):
        """Not at a job's end: a service that forgets the job cannot report it, and a new node belongs to neither."""
        if self.ending or (self.late and self.services.hosts):
            return kind in HURTS_WORKERS
        if self.wants_calm or self.lasting() >= MOST_AT_ONCE:
            return kind == "reuse" or (kind in HURTS_WORKERS and not self.wants_calm)
        return not self.late or kind not in ("service", "away", "reuse", "gone")

    def lasting(self):
        """Returns the number of faults that are not mended yet."""
        now = time.monotonic()
        return sum(fault["to"] > now for fault in self.fired if fault["kind"] != "gone")

    def victim(self, fault, fits=lambda node: True):
        """Returns the fault's node or the next whole one."""
        whole = [node for node in self.whole() if fits(node) and not self.is_spared(node, fault.kind)]
        whole.sort(key=lambda node: (node.number - fault.node) % len(self.nodes))
        return whole[0] if whole else None

    def is_spared(self, node, kind):
        """Spares the host of the job's only service, unless it is meant to die too."""
        return (self.services.hosts == [node.number] and kind in KILLS_HOST and not self.args.host_dies)

    # ---- processes and nodes

    def do_worker(self, fault):
        node = self.victim(fault, lambda node: node.workers())
        workers, began = node.workers() if node else [], time.monotonic()
        if not workers or not cluster.send(workers[int(fault.choice * len(workers))], signal.SIGKILL):
            return False
        self.record("worker", 0.0, began, node=node.number)
        return True

    def loser(self, fault):
        """Returns a node to die: a member if there is one, so that a spare must replace it."""
        members = self.hearing.members()
        return self.victim(fault, lambda node: node.number in members) or self.victim(fault)

    def do_agent(self, fault):
        if not (node := self.loser(fault)):
            return False
        front, began = node.front.pid, time.monotonic()
        victims = [front, cluster.child(front), node.agent()]
        if not cluster.send(victims[int(fault.choice * 3)], signal.SIGKILL):
            return False
        record = self.record("agent", fault.lasts, began, node=node.number)
        return self.bring_back(node, fault, record)

    def do_node(self, fault):
        if not (node := self.loser(fault)):
            return False
        record = self.record("node", fault.lasts, node=node.number)
        self.cluster.set_link(node.number, False)
        self.cluster.kill_all(node.number)
        return self.bring_back(node, fault, record)

    def do_leave(self, fault):
        node, began = self.victim(fault), time.monotonic()
        if node is None or not cluster.send(node.front.pid, signal.SIGTERM):
            return False
        record = self.record("leave", fault.lasts, began, node=node.number)
        return self.bring_back(node, fault, record)

    def do_gone(self, fault):
        """Removes a node for good, never the first of the services' list, as a first formation asks the whole list."""
        if not (node := self.victim(fault, lambda node: node.number in self.services.hosts[1:])):
            return False
        self.record("gone", 1e9, node=node.number)
        self.cluster.kill_all(node.number)
        node.front.wait()
        node.state = GONE
        return True

    def bring_back(self, node, fault, record):
        node.state = DOWN
        self.later(fault.lasts, lambda: self.join(node, record))
        return True

    def join(self, node, record):
        """Starts a new mtrun on the node, once the old one's processes are gone and no job is about to end."""
        record["to"] = time.monotonic()
        if (self.ending and self.whole()) or self.cluster.processes(node.number):
            return self.later(0.1, lambda: self.join(node, record))
        status = node.front.wait()
        if record.get("kind") == "leave" and status not in self.may_leave_with(record):
            self.problems.append(f"node{node.number}: mtrun was told to go and ended with {status}{node.last_words()}")
        self.cluster.set_link(node.number, True)
        node.start()
        self.record("join", 0.0, node=node.number)

    def may_leave_with(self, record):
        """Returns allowed statuses. Without an outliving service, a node that missed the job's end may exit with 1."""
        is_over = self.ending or any(when >= record["from"] for when in self.over.values())
        return LEFT_WELL + ((1,) if self.services.hosts and is_over else ())

    # ---- temporary faults

    def do_freeze(self, fault):
        node, began = self.victim(fault), time.monotonic()
        if node is None or not (agent := self.stopped(node)):
            return False
        return self.thaw_later(node, agent, self.record("freeze", fault.lasts, began, node=node.number))

    @staticmethod
    def stopped(node):
        """Stops its agent and returns it; None if there is none."""
        agent = node.agent()
        return agent if cluster.send(agent, signal.SIGSTOP) else None

    def thaw_later(self, node, agent, record):
        front = node.front
        node.state = FROZEN

        def mend():
            cluster.send(agent, signal.SIGCONT)
            record["to"] = time.monotonic()
            if node.front is front and node.state == FROZEN:
                node.state = WHOLE

        self.later(record["to"] - time.monotonic(), lambda: self.mend_late(record, mend))
        return True

    def do_cut(self, fault):
        node = self.victim(fault)
        return self.cut(node, self.record("cut", fault.lasts, node=node.number)) if node else False

    def cut(self, node, record):
        self.cluster.set_link(node.number, False)
        node.state = CUT

        def mend():
            self.cluster.set_link(node.number, True)
            record["to"], node.state = time.monotonic(), WHOLE

        self.later(record["to"] - time.monotonic(), lambda: self.mend_late(record, mend))
        return True

    def do_flap(self, fault):
        if not (node := self.victim(fault)):
            return False
        record, pauses = self.record("flap", fault.lasts, node=node.number), list(fault.pauses)
        node.state = CUT

        def toggle():
            self.cluster.set_link(node.number, len(pauses) % 2 == 1 or not pauses)
            if pauses:
                return self.later(pauses.pop(0), toggle)
            record["to"], node.state = time.monotonic(), WHOLE

        toggle()
        return True

    def do_uplink(self, fault):
        """Cuts an uplink; in half of the cases that of all members, so that only spares reach the service."""
        whole, members = {node.number for node in self.whole()}, self.hearing.members()
        far = sorted(whole & members) if fault.choice < 0.5 else sorted(whole)[: 1 + len(whole) // 2]
        if len(far) < 2 or (fault.choice < 0.5 and not members <= whole):
            return False
        record = self.record("uplink", fault.lasts, nodes=far)
        self.cluster.set_uplink(far, False)
        for number in far:
            self.nodes[number].state = CUT

        def mend():
            self.cluster.set_uplink(far, True)
            record["to"] = time.monotonic()
            for number in far:
                self.nodes[number].state = WHOLE

        self.later(fault.lasts, mend)
        return True

    def do_disk(self, fault):
        disk = self.disks[int(fault.choice * len(self.disks))]
        if disk.is_full():
            return False
        record = self.record("disk", fault.lasts)
        disk.fill()
        since = time.monotonic()

        def mend():
            if not self.has_refused(disk, since):
                record["to"] = time.monotonic() + 0.1
                disk.fill()  # removed files have freed space
                return self.later(0.1, mend)
            disk.empty()
            record["to"] = time.monotonic()

        self.later(fault.lasts, mend)
        return True

    def has_refused(self, disk, _since):
        """Returns whether the disk, full since then, has refused a write."""
        return disk.refuses()

    # ---- the service

    def do_service(self, fault):
        if self.services.process is None:
            return False
        self.record(fault.kind, fault.lasts)
        self.services.kill()
        self.later(fault.lasts, self.services.start)
        return True

    do_away = do_service

    # ---- consecutive jobs

    def do_reuse(self, fault):
        """Ends the job's work so that the service learns of it. Members that finish while cut off end on their own, and
        the spares run the job again. One node learns the outcome later: if no service outlives the job, only when the
        next one runs and nothing else is wrong."""
        node = self.victim(fault, lambda node: node.number not in self.services.hosts)
        self.wants_calm = not self.calm_for(CALM_SECONDS if self.services.hosts else BACK_SECONDS)
        if node is None or self.wants_calm or not self.has_run() or not self.all_have_heard():
            return False
        began, agent = time.monotonic(), None
        if fault.choice < 0.5 and not (agent := self.stopped(node)):
            return False
        self.late_record = self.record("reuse", fault.lasts, began, node=node.number, job=self.job)
        self.thaw_later(node, agent, self.late_record) if agent else self.cut(node, self.late_record)
        self.ending = time.monotonic()
        self.finish_work()
        return True

    def mend_late(self, record, mend):
        """Mends now, or when the node can learn that its job is over."""
        if self.may_come(record):
            return mend()
        record["to"] = time.monotonic() + 0.1
        self.later(0.1, lambda: self.mend_late(record, mend))

    def may_come(self, record):
        """If no service remembers a job, its nodes seem to continue it until another one has formed."""
        return record["kind"] != "reuse" or not self.services.hosts or self.next_runs(record["job"])

    def next_runs(self, job):
        return self.job > job and self.has_run()

    def calm_for(self, seconds):
        """Returns whether everything has been mended for this long."""
        now = time.monotonic()
        return all(fault["to"] + seconds < now for fault in self.fired if fault["kind"] != "gone")

    def all_have_heard(self):
        return all(map(self.hearing.knows_job, filter(Node.runs, self.nodes)))

    def settle(self):
        """Waits, up to a bound, until every node knows of the job and, if no service outlives it, all is calm."""
        end = time.monotonic() + FORM_SECONDS
        while time.monotonic() < end and not (self.all_have_heard() and (not self.services.hosts or self.calm_for(CALM_SECONDS))):
            self.turn()

    def next_job(self):
        """Starts the next job on every node as soon as its mtrun has ended, or beside the late one."""
        self.over[self.job], self.ending = time.monotonic(), None
        late = [Late(node, self.job, self.late_record) for node in self.nodes if node.runs()]
        self.late += late
        self.job += 1
        for each in late:
            each.node.changes = True
            self.restart(each, time.monotonic() + 1.0)

    def restart(self, late, patience):
        node = late.node
        waits = time.monotonic() < patience or node.number in self.services.hosts
        if late.front.poll() is None and waits:
            return self.later(0.02, lambda: self.restart(late, patience))
        if node.state == FROZEN:
            node.state = WHOLE  # the new one is whole
        node.start()

    # ---- as time passes

    def turn(self):
        while self.todo and self.todo[0][0] <= time.monotonic():
            heapq.heappop(self.todo)[2]()
        if self.ending and self.hearing.is_over(list(filter(Node.runs, self.nodes))):
            self.next_job()
        self.look_at_late()
        for node in self.nodes:
            if node.runs() and node.front.poll() is not None and not (self.ending and node.front.poll() == 0):
                self.ended_by_itself(node)
        time.sleep(0.01)

    def ended_by_itself(self, node):
        self.problems.append(f"node{node.number}: mtrun ended by itself with {node.front.returncode}{node.last_words()}")
        node.state = DOWN
        now = time.monotonic()
        self.later(1.0, lambda: self.join(node, {"to": now}))

    def look_at_late(self):
        now = time.monotonic()
        for late in list(self.late):
            name, code = f"node{late.node.number}: mtrun of job {late.job}, which has ended,", late.front.poll()
            # If no service remembers how the job ended, an mtrun with unfinished workers does not exit with 0.
            if late.node.state in (DOWN, GONE) or code == 0 or (code == 1 and self.services.hosts):
                self.late.remove(late)  # killed with its node, or notified
            elif code is not None:
                self.problems.append(f"{name} ended with {code} instead of 0{late.node.last_words()}")
                self.late.remove(late)
            elif late.deaf(now):
                late.since = max(late.since, now)
            elif now > late.since + END_SECONDS:
                self.problems.append(f"{name} has not ended {END_SECONDS:.0f} s after it could hear of it")
                self.late.remove(late)

    def is_calm(self):
        return not self.todo and not self.late and not self.ending


def run_storm(storm, keep, held):
    """Returns the violations. The storm's files are kept if there are any, or with `keep`."""
    violations = ["it did not end"]
    try:
        storm.run()
        violations = storm.report()
    except RuntimeError as error:
        print(f"chaos: {error}")
    finally:
        storm.cluster.close()
        for each in storm.disks:
            each.close()
    print(f"NOT all held; everything is in {storm.folder}" if violations else held, flush=True)
    if violations or keep:
        print(f"kept: {storm.folder}")
    else:
        shutil.rmtree(storm.folder)
    return violations


def run_storms(make, args, held):
    """Runs a storm make(args, setting, minutes) for each of --settings, which share the time; returns the exit status.
    `held`: the message for a storm in which all properties held."""
    names = args.settings.split(",")
    found = {name: run_storm(make(args, name, args.minutes / len(names)), args.keep, held) for name in names}
    for name, violations in found.items():  # repeated at the end, where it is seen
        if violations and len(names) > 1:
            print(f"{name}: NOT all held: " + "; ".join(violations[:5]))
    return 1 if any(found.values()) else 0
