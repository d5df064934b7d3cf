"""Chaos over the rendezvous: four nodes of toy workers under a schedule of faults."""
import argparse
import glob
import heapq
import itertools
import json
import os
import secrets
import shutil
import signal
import sys
import tempfile
import time

import cluster
import properties
import schedule
import screen
import storm

USAGE = """tools/chaos rendezvous --minutes N --seed S

Four nodes (network namespaces on a bridge) run a job of toy workers that take steps together; nodes 0 and 1 run cooperative
ones, 2 and 3 ordinary ones, or as --workers says. Workers, agents, whole nodes and the service are killed, nodes leave and
join, agents freeze, cables are cut. Then all is mended, the job must form again, and the event logs and the workers' own
records must show that every property held. A seed replays the same schedule (a fault meets the next node that is whole).
Exit status 0: all held; 1: not; 77: no namespaces here."""
PORT = 29400
CALM_SECONDS = 3.0    # at the start: nothing may dissolve
FORM_SECONDS = 30.0   # bound on forming, at the start and after the last fault
END_SECONDS = 20.0    # bound on ending once the work is done


class Node:
    """One machine's mtrun."""

    def __init__(self, chaos, number):
        self.chaos, self.number, self.front, self.state = chaos, number, None, "down"

    def start(self):
        chaos, number = self.chaos, self.number
        kind = {"mixed": ["cooperative", "ordinary"][number >= chaos.args.nodes // 2]}.get(chaos.args.workers,
                                                                                          chaos.args.workers)
        argv = [os.path.join(chaos.args.bin, "mtrun"), "--nnodes", f"{chaos.args.min_nodes}:{chaos.args.nodes}",
                "--nproc_per_node", str(chaos.args.per_node), "--rdzv_endpoint",
                f"{chaos.cluster.address(cluster.HUB)}:{PORT}", "--rdzv_id", "chaos", "--node_rank", str(number),
                "--max_restarts", "1000000", "--rdzv_conf", "last_call_timeout=0.5", "--shutdown_timeout", "3",
                "--event_log", os.path.join(chaos.folder, f"events-{number}.jsonl"), "--log_dir",
                os.path.join(chaos.folder, f"logs-{number}"), "--no_python", sys.executable, "-I", "-S",
                os.path.join(os.path.dirname(__file__), "toy.py"), kind]
        self.front = chaos.cluster.start(number, argv, os.path.join(chaos.folder, f"node-{number}.log"), chaos.environment)
        self.state = "whole"

    def agent(self):
        """mtrun's grandchild (launcher/workers/guardian.h)."""
        return cluster.child(cluster.child(self.front.pid) or 0)

    def workers(self):
        agent = self.agent()
        try:
            with open(f"/proc/{agent}/task/{agent}/children", encoding="ascii") as file:
                return [int(word) for word in file.read().split()]
        except OSError:
            return []


class Chaos:
    def __init__(self, args):
        self.args = args
        self.folder = tempfile.mkdtemp(prefix="mtrun-chaos-")
        os.mkdir(os.path.join(self.folder, "records"))
        self.environment = {**os.environ, "MTRUN_CHAOS_RECORDS": os.path.join(self.folder, "records"),
                            "MTRUN_TOKEN": secrets.token_hex(16), "TMPDIR": self.folder}
        self.cluster = cluster.make_cluster(args.nodes, "chaos")
        self.nodes = [Node(self, number) for number in range(args.nodes)]
        self.service, self.burners = None, []
        self.todo, self.order = [], itertools.count()  # a heap of (when, number, what)
        self.fired = []  # {"kind", "node", "from", "to"}
        self.joins, self.problems = 0, []
        self.tails, self.commits = {}, []  # of the workers' records: what has been read, steps of all workers
        self.progress = screen.Progress("chaos")
        self.formed_again = float("nan")

    # ---- the service

    def start_service(self):
        argv = [os.path.join(self.args.bin, "mtrdzv"), "--host", self.cluster.address(cluster.HUB), "--port", str(PORT)]
        self.service = self.cluster.start(cluster.HUB, argv, os.path.join(self.folder, "service.log"), self.environment)

    # ---- faults and their mending

    def later(self, seconds, what):
        heapq.heappush(self.todo, (time.monotonic() + seconds, next(self.order), what))

    def fire(self, fault):
        if fault.kind == "service":
            return self.kill_service(fault)
        whole = [node for node in self.nodes if node.state == "whole" and node.agent()]
        whole.sort(key=lambda node: (node.number - fault.node) % self.args.nodes)
        victims = [node for node in whole if fault.kind != "worker" or node.workers()]
        if not victims:
            return self.later(0.3, lambda: self.fire(fault))
        node, now = victims[0], time.monotonic()
        record = {"kind": fault.kind, "node": node.number, "from": now, "to": now + fault.lasts}
        self.fired.append(record)
        getattr(self, "do_" + fault.kind)(node, fault, record)

    def kill_service(self, fault):
        if self.service is None:
            return self.later(0.3, lambda: self.fire(fault))
        now = time.monotonic()
        self.fired.append({"kind": "service", "node": None, "from": now, "to": now + fault.lasts})
        self.service.kill()
        self.service.wait()
        self.service = None
        self.later(fault.lasts, self.start_service)

    def do_worker(self, node, fault, record):
        workers = node.workers()
        cluster.send(workers[int(fault.choice * len(workers))], signal.SIGKILL)

    def do_agent(self, node, fault, record):
        front = node.front.pid
        victims = [front, cluster.child(front), node.agent()]
        cluster.send(victims[int(fault.choice * 3)], signal.SIGKILL)
        self.bring_back(node, fault, record)

    def do_node(self, node, fault, record):
        self.cluster.set_link(node.number, False)
        self.cluster.kill_all(node.number)
        self.bring_back(node, fault, record)

    def do_leave(self, node, fault, record):
        cluster.send(node.front.pid, signal.SIGTERM)
        self.bring_back(node, fault, record)

    def bring_back(self, node, fault, record):
        node.state = "down"
        self.later(fault.lasts, lambda: self.join(node, record))

    def join(self, node, record):
        """A new mtrun on the node, once nothing of the old one is left there."""
        record["to"] = time.monotonic()
        if self.cluster.processes(node.number):
            return self.later(0.1, lambda: self.join(node, record))
        node.front.wait()
        self.cluster.set_link(node.number, True)
        node.start()
        self.joins += 1
        self.fired.append({"kind": "join", "node": node.number, "from": record["to"], "to": record["to"]})

    def do_freeze(self, node, fault, record):
        agent = node.agent()
        cluster.send(agent, signal.SIGSTOP)
        node.state = "frozen"
        self.later(fault.lasts, lambda: self.mend(node, record, lambda: cluster.send(agent, signal.SIGCONT)))

    def do_cut(self, node, fault, record):
        self.cluster.set_link(node.number, False)
        node.state = "cut"
        self.later(fault.lasts, lambda: self.mend(node, record, lambda: self.cluster.set_link(node.number, True)))

    def mend(self, node, record, how):
        how()
        record["to"] = time.monotonic()
        node.state = "whole"

    def do_flap(self, node, fault, record):
        node.state = "cut"
        pauses = list(fault.pauses)

        def toggle():
            if not pauses:
                return self.mend(node, record, lambda: self.cluster.set_link(node.number, True))
            self.cluster.set_link(node.number, len(pauses) % 2 == 1)
            self.later(pauses.pop(0), toggle)

        toggle()

    # ---- the run

    def turn(self):
        while self.todo and self.todo[0][0] <= time.monotonic():
            heapq.heappop(self.todo)[2]()
        for node in self.nodes:
            if node.state != "down" and node.front.poll() is not None:
                self.problems.append(f"node{node.number}: mtrun ended by itself with {node.front.returncode}")
                node.state = "down"
                node.front.wait()
                now = time.monotonic()
                self.later(1.0, lambda: self.join(node, {"to": now}))
        time.sleep(0.01)

    def commits_of_all(self, since):
        """The moment of the first step behind `since` that all workers committed, or None."""
        world = self.args.nodes * self.args.per_node
        for path in glob.glob(os.path.join(self.folder, "records", "*.jsonl")):
            for record in self.tails.setdefault(path, storm.Tail(path)).new():
                if record["kind"] == "commit" and record["world"] == world:
                    self.commits.append(record["t"])
        later = [when for when in self.commits if when > since]
        self.commits = later or self.commits
        return min(later, default=None)

    def wait_for_all(self, since, what):
        end = since + FORM_SECONDS
        while time.monotonic() < end:
            self.turn()
            self.progress.show(f"{what}: waiting for a step of all workers")
            if (when := self.commits_of_all(since)) is not None:
                return when - since
        self.problems.append(f"{what}: no step of all workers within {FORM_SECONDS:.0f} s")
        return float("nan")

    def begin(self):
        """Starts everything; when."""
        began = time.monotonic()
        self.burners = [self.cluster.start(cluster.HUB, ["sh", "-c", "while :; do :; done"], os.devnull, self.environment)
                        for _ in range(self.args.load)]
        self.start_service()
        for node in self.nodes:
            node.start()
        return began

    def run(self):
        args = self.args
        began = self.begin()
        for node in self.nodes:
            self.fired.append({"kind": "join", "node": node.number, "from": began, "to": began + FORM_SECONDS})
        self.wait_for_all(began, "at the start")
        calm = time.monotonic()
        for fault in self.fired:
            fault["to"] = calm - properties.BLAME_SECONDS  # from now on nothing is to blame
        seconds = max(1.0, args.minutes * 60 - (calm - began) - 2 * CALM_SECONDS)
        faults = [] if args.quiet else schedule.make(args.seed, seconds, args.gap, args.nodes)
        for fault in faults:
            self.later(CALM_SECONDS + fault.at, lambda fault=fault: self.fire(fault))
        while time.monotonic() < calm + CALM_SECONDS + seconds or self.todo:
            self.turn()
            counts = {kind: sum(f["kind"] == kind for f in self.fired) for kind in schedule.KINDS}
            self.progress.show(", ".join(f"{kind} {count}" for kind, count in counts.items()))
        mended = time.monotonic()
        self.formed_again = self.wait_for_all(mended, "after the last fault")
        self.finish()

    def finish(self):
        """SIGUSR1 tells the toys that their work is done: everything must end by itself, with 0."""
        self.progress.show("ending the job", now=True)
        for node in self.nodes:
            for worker in node.workers():
                cluster.send(worker, signal.SIGUSR1)
        end = time.monotonic() + END_SECONDS
        for node in self.nodes:
            while node.front.poll() is None and time.monotonic() < end:
                time.sleep(0.01)
            if node.front.poll() != 0:
                self.problems.append(f"node{node.number}: mtrun ended with {node.front.poll()} instead of 0 (None: not at all)")
        for process in self.burners + ([self.service] if self.service else []):
            process.terminate()
            process.wait()
        time.sleep(0.2)
        left = self.cluster.processes()
        if left:
            self.problems.append(f"{len(left)} processes are left: {left}")
        self.progress.end()

    def report(self):
        offset = time.time() - time.monotonic()
        with open(os.path.join(self.folder, "faults.json"), "w", encoding="utf-8") as file:
            json.dump({"wall_minus_monotonic": offset, "faults": self.fired}, file)
        evidence = properties.Evidence(self.folder, offset)
        pauses = properties.pauses(evidence, self.fired)
        kinds = {**schedule.KINDS, "join": "a node starts mtrun (again)"}
        counts = {kind: sum(f["kind"] == kind for f in self.fired) - (self.args.nodes if kind == "join" else 0) for kind in kinds}
        total = sum(counts[kind] for kind in schedule.KINDS)
        print(f"{total} faults in {self.args.minutes:g} minutes, seed {self.args.seed}; load {os.getloadavg()[0]:.1f} on "
              f"{os.cpu_count()} cores. The pause of a fault: the longest time without a step that begins within 2.5 s of it")
        screen.table(["fault", "fired", "pause p50 s", "max s", "what"],
                     [[kind, counts[kind], f"{screen.quantile(pauses[kind], 0.5):.2f}" if pauses[kind] else "-",
                       f"{max(pauses[kind]):.2f}" if pauses[kind] else "-", text] for kind, text in kinds.items()])
        checks = properties.check(evidence, self.fired)
        checks.append((f"formed again after the last fault within {FORM_SECONDS:.0f} s, all ended with 0, nothing is left",
                       f"{self.formed_again:.2f} s", self.problems))
        print()
        violations = show(checks)
        scarce = [kind for kind, count in counts.items() if count < self.args.each]
        if scarce and not self.args.quiet:
            print(f"fewer than {self.args.each} of: {', '.join(scarce)}")
            violations.append("scarce")
        return violations


def show(checks):
    """Prints the verdicts; the violations."""
    screen.table(["property", "seen on", "held"],
                 [[name, seen, "yes" if not found else f"NO ({len(found)})"] for name, seen, found in checks])
    violations = [violation for _, _, found in checks for violation in found]
    for violation in violations[:20]:
        print("  " + violation)
    return violations


def check_again(folder):
    """The verdict on what a run left with --keep."""
    saved = {"wall_minus_monotonic": 0.0, "faults": []}
    if os.path.exists(os.path.join(folder, "faults.json")):
        with open(os.path.join(folder, "faults.json"), encoding="utf-8") as file:
            saved = json.load(file)
    evidence = properties.Evidence(folder, saved["wall_minus_monotonic"])
    return 1 if show(properties.check(evidence, saved["faults"])) else 0


def parse(argv):
    parser = argparse.ArgumentParser(prog="chaos rendezvous", description=USAGE,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("MTRUN_SEED", 0)) or secrets.randbelow(10**6))
    parser.add_argument("--gap", type=float, default=1.2, help="mean seconds between two faults [1.2]")
    parser.add_argument("--each", type=int, default=0, help="so many faults of each kind must have fired [0]")
    parser.add_argument("--workers", choices=["mixed", "cooperative", "ordinary"], default="mixed")
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--min_nodes", type=int, default=2)
    parser.add_argument("--per_node", type=int, default=2)
    parser.add_argument("--quiet", action="store_true", help="no faults: nothing may dissolve in all that time")
    parser.add_argument("--load", type=int, default=0, help="processes that keep the processors busy meanwhile [0]")
    parser.add_argument("--bin", default=os.environ.get("MT_BIN", "build/release/bin"), help="where mtrun and mtrdzv are")
    parser.add_argument("--keep", action="store_true", help="leave logs and records in place and say where")
    parser.add_argument("--check", metavar="FOLDER", help="only read what a run left there with --keep")
    args = parser.parse_args(argv)
    args.bin = os.path.abspath(args.bin)
    return args


def main(argv):
    args = parse(argv)
    if args.check:
        return check_again(args.check)
    print(f"chaos rendezvous --minutes {args.minutes:g} --seed {args.seed} --gap {args.gap:g} --workers {args.workers}",
          flush=True)
    chaos = Chaos(args)
    try:
        chaos.run()
        violations = chaos.report()
    finally:
        chaos.cluster.close()
    print("all held" if not violations else f"NOT all held; logs and records are in {chaos.folder}")
    if violations or args.keep:
        print(f"kept: {chaos.folder}")
    else:
        shutil.rmtree(chaos.folder)
    return 1 if violations else 0
