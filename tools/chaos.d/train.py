"""Chaos over training: workers, agents, nodes and the service die, nodes leave and join; the run must be the undisturbed one."""
import argparse
import os
import random
import secrets
import shutil
import signal
import subprocess
import tempfile
import time

import cluster
import node as nodes
import packed
import screen
import services
import storm
import train_storm

USAGE = """tools/chaos train --interval X --step_seconds S

A training run (cnnA, float64) on nodes that are network namespaces. Failures come as a Poisson process of mean interval X
seconds (with --regular every X seconds, as in torchft's figures) and hit a member of the running group: a worker, an agent, a
whole node; with --leaves nodes also leave in order and come back; the service is killed besides. Steps last at least S seconds
without using the processors. At the end: committed and attempted steps, time goodput, the ledger's verdict, and every step's
loss against a run that nobody disturbed. Exit status 0: exactly once and equal losses; 1: not; 77: no namespaces here.

With --minutes N it is a storm instead: runs of --steps steps follow each other under one id, each begins at once when the last
one has ended and a node of that one is still late; the faults are those of `tools/chaos rendezvous`, with full disks of the run
folders, at --gap seconds' mean distance. The time is shared by a storm for each of --settings: one, list or hosted (the service,
as there), and shared or own (a run folder a node). Of each run the ledger and the losses are checked, that no two generations
write at a time, and that no more than one step is redone where a member has survived.

With --wide the storm also freezes whole nodes beyond their lease and kills the nodes that continued, starts all nodes cold in
any order, moves wall clocks, breaks cables in one direction, loses and corrupts packets, makes disks read-only, and drains nodes
that are cut off; runs have 240 steps. The disks are looked at all the time: no checkpoint may go before one that descends from
it is there. No generation may begin below a checkpoint that a member could read; losses and final weights are those of the
undisturbed run to 1e-12; and the ledgers are checked by a second program, too. Its --settings are all six, 3 minutes each
unless --minutes says otherwise."""
PORT = 29400
PATIENCE = 120.0  # without a new step
WIDE_MINUTES = 3.0  # of each setting


def parse(argv):
    parser = argparse.ArgumentParser(prog="chaos train", description=USAGE,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--interval", type=float, default=11.0, help="mean seconds between two failures [11]")
    parser.add_argument("--regular", action="store_true", help="failures exactly --interval apart")
    parser.add_argument("--step_seconds", type=float, help="seconds of a step, 0: what it takes [2, in a storm 0.4]")
    parser.add_argument("--steps", type=int, help="steps of the run, in epochs of 20 [100, of one of a storm 80,"
                                                     " wide 240]")
    parser.add_argument("--leaves", type=float, default=0.0, help="mean seconds between two nodes that leave, 0: none [0]")
    parser.add_argument("--service_interval", type=float, default=30.0,
                        help="mean seconds between two kills of the service, 0: none [30]")
    parser.add_argument("--down", type=float, default=1.0, help="mean seconds until a node is started again [1]")
    parser.add_argument("--victims", default="worker:3,agent:1,node:1",
                        help="what failures hit, with weights [worker:3,agent:1,node:1]")
    parser.add_argument("--nodes", type=int, help="MAX: nodes that run a job [4, in a storm 3]")
    parser.add_argument("--minutes", type=float, default=0, help="a storm of so many minutes")
    parser.add_argument("--wide", action="store_true", help="a storm with more kinds of faults, as above")
    parser.add_argument("--gap", type=float, help="storm: mean seconds between two faults, of a wide one between two of the "
                                                  "kinds that others have [4, wide 8]")
    parser.add_argument("--each", type=int, default=0, help="storm: so many faults of each kind must have fired in each [0]")
    parser.add_argument("--settings", help="storm: as above [one:shared,list:own; wide: all six]")
    parser.add_argument("--spares", type=int, default=2, help="storm: nodes beyond MAX [2]")
    parser.add_argument("--min_nodes", type=int, default=1, help="storm [1]")
    parser.add_argument("--without", default="", metavar="KIND,...", help="storm: faults that are left out")
    parser.add_argument("--host_dies", action="store_true", help="storm, hosted: node 0 dies and leaves as the others do")
    parser.add_argument("--per_node", type=int, default=1, help="workers of a node [1]")
    parser.add_argument("--seed", type=int, default=int(os.environ.get("MTRUN_SEED", 0)) or secrets.randbelow(10**6))
    parser.add_argument("--max_restarts", type=int, default=100000, help="the budget of failures, job-wide [100000]")
    parser.add_argument("--bin", default=os.environ.get("MT_BIN", "build/release/bin"))
    parser.add_argument("--keep", action="store_true", help="leave logs and runs in place and say where")
    args = parser.parse_args(argv)
    args.bin = os.path.abspath(args.bin)
    every = [f"{where}:{folders}" for where in services.SETTINGS for folders in ("shared", "own")]
    if args.wide and not args.minutes:
        args.minutes = WIDE_MINUTES * len(args.settings.split(",") if args.settings else every)
    for name, alone, of_storm, wide in (("nodes", 4, 3, 3), ("step_seconds", 2.0, 0.4, 0.4), ("steps", 100, 80, 240),
                                        ("gap", 4.0, 4.0, 8.0),
                                        ("settings", "one:shared,list:own", "one:shared,list:own", ",".join(every))):
        if getattr(args, name) is None:
            setattr(args, name, wide if args.wide else of_storm if args.minutes else alone)
    known = set(every)
    if set(args.settings.split(",")) - known:
        parser.error(f"--settings are some of {', '.join(sorted(known))}")
    args.steps += -args.steps % packed.STEPS
    return args


def ended_badly(fronts, hit):
    """The mtruns to which nothing was done, and which did not end with 0: one a node, None where there never was one."""
    return [f"mtrun of node {node} ended with {front.returncode}" for node, front in enumerate(fronts)
            if front is not None and front not in hit and front.returncode != 0]


class Training:
    def __init__(self, args):
        self.args, self.choose = args, random.Random(args.seed)
        self.folder = tempfile.mkdtemp(prefix="mtrun-train-")
        self.data = packed.write(os.path.join(self.folder, "data"))
        self.environment = {**os.environ, "MTRUN_TOKEN": "mtrun1-" + secrets.token_hex(32), "TMPDIR": self.folder, "XDG_STATE_HOME": self.folder, "OMP_NUM_THREADS": "1",
                            "MTRUN_TRAINER_PATH": args.bin}
        self.cluster = cluster.make_cluster(args.nodes, "chaos")
        self.fronts = [None] * args.nodes
        self.back = {}          # node -> when it is started again
        self.service, self.service_back = None, None
        self.log = []           # (wall time, what, node)
        self.at_last_step = set()  # pids of the workers when the ledger's newest step was seen
        self.hit, self.told = set(), set()  # mtruns that were killed or told to go; the latter
        self.bad_ends = []      # of these, in words
        self.done = False

    # ---- what runs

    def trainer(self, run):
        return ["cnnA", "--data", self.data, "--model_folder", run, "--epochs", str(self.args.steps // packed.STEPS),
                "--batch_size", "2", "--global_batch", str(packed.BATCH), "--precision", "float64", "--learning_rate", "0.05",
                "--momentum", "0.9", "--threads", "1", "--checkpoint_seconds", str(self.args.step_seconds or 1)]

    def start_service(self):
        argv = [os.path.join(self.args.bin, "mtrdzv"), "--host", self.cluster.address(cluster.HUB), "--port", str(PORT)]
        self.service = self.cluster.start(cluster.HUB, argv, os.path.join(self.folder, "service.log"), self.environment)

    def start_node(self, node):
        argv = [os.path.join(self.args.bin, "mtrun"), "--nnodes", f"1:{self.args.nodes}", "--nproc_per_node",
                str(self.args.per_node), "--rdzv_endpoint", f"{self.cluster.address(cluster.HUB)}:{PORT}", "--rdzv_id", "train",
                "--node_rank", str(node), "--max_restarts", str(self.args.max_restarts), "--rdzv_conf", "last_call_timeout=2",
                "--shutdown_timeout", "20", "--event_log", os.path.join(self.folder, f"events-{node}.jsonl"), "--log_dir",
                os.path.join(self.folder, f"logs-{node}"), "--trainer"] + self.trainer(os.path.join(self.folder, "run"))
        pace = {"MTRUN_PACE": str(self.args.step_seconds)} if self.args.step_seconds else {}
        self.fronts[node] = self.cluster.start(node, argv, os.path.join(self.folder, f"node-{node}.log"),
                                               {**self.environment, **pace})

    # ---- what is done to it

    def workers(self):
        """(node, agent, worker) of all that are to be up."""
        found = []
        for node, front in enumerate(self.fronts):
            if front is None or node in self.back:
                continue
            agent = cluster.agent(front.pid)
            for worker in storm.children(agent):
                found.append((node, agent, worker))
        return found

    def members(self):
        """Those of the group. A world of one node has the oldest of those that were there at the last step: one that starts is no
        member, and a node whose workers fail to start again and again gives up."""
        found = self.workers()
        connected = [each for each in found if storm.is_connected(each[2])]
        were_there = [each for each in found if each[2] in self.at_last_step]
        return connected or sorted(were_there, key=lambda each: storm.age(each[2]))[:1]

    def fail(self):
        """A failure that hits a member; False when there is none to hit."""
        members = self.members()
        if not members:
            return False
        node, agent, worker = self.choose.choice(members)
        names, weights = zip(*((name, float(weight)) for name, weight in
                               (item.split(":") for item in self.args.victims.split(","))))
        what, when = self.choose.choices(names, weights)[0], time.time()
        if what == "node":
            self.cluster.set_link(node, False)
            self.cluster.kill_all(node)
        elif not cluster.send(worker if what == "worker" else agent, signal.SIGKILL):
            return False
        self.log.append((when, what, node))
        if what != "worker":
            self.hit.add(self.fronts[node])
            self.leave_for(node)
        return True

    def leave(self):
        """A node that is told to go; one always stays. Before its agent is there mtrun may not hear a signal yet."""
        here = [node for node, front in enumerate(self.fronts)
                if node not in self.back and front.poll() is None and cluster.agent(front.pid)]
        if len(here) < 2:
            return False
        node, when = self.choose.choice(here), time.time()
        if not cluster.send(self.fronts[node].pid, signal.SIGTERM):
            return False
        self.hit.add(self.fronts[node])
        self.told.add(self.fronts[node])
        self.leave_for(node)
        self.log.append((when, "leave", node))
        return True

    def leave_for(self, node):
        self.back[node] = time.monotonic() + self.choose.uniform(0.2, 2 * self.args.down)

    def kill_service(self):
        if self.service is None:
            return False
        if self.service.poll() is not None:
            raise RuntimeError(f"mtrdzv ended by itself with {self.service.returncode}")
        self.service.kill()
        self.service.wait()
        self.service, self.service_back = None, time.monotonic() + self.choose.uniform(0.1, 2.0)
        self.log.append((time.time(), "service", None))
        return True

    def mend(self):
        now = time.monotonic()
        if self.service_back and now >= self.service_back:
            self.start_service()
            self.service_back = None
        for node, when in list(self.back.items()):
            if now < when or self.cluster.processes(node):
                continue
            status = self.fronts[node].wait()
            if self.fronts[node] in self.told and status not in nodes.LEFT_WELL:
                self.bad_ends.append(f"mtrun of node {node}, which was told to go, ended with {status}")
            self.cluster.set_link(node, True)
            del self.back[node]
            if not self.done:
                self.start_node(node)
                self.log.append((time.time(), "join", node))

    # ---- the run

    def pause(self, what, mean):
        """Seconds until the next one."""
        return mean if what == "fail" and self.args.regular else self.choose.expovariate(1 / mean)

    def intervals(self):
        """Of what is asked for."""
        every = {"fail": self.args.interval, "leave": self.args.leaves, "kill_service": self.args.service_interval}
        return {what: mean for what, mean in every.items() if mean}

    def begin_plan(self, now):
        """When the first of each is due: soon enough for storm.never_done."""
        return {what: now + min(self.pause(what, mean), storm.FIRST_INTERVALS * mean) for what, mean in self.intervals().items()}

    def run(self):
        self.start_service()
        for node in range(self.args.nodes):
            self.start_node(node)
        progress, ledger = screen.Progress("chaos"), storm.Tail(os.path.join(self.folder, "run", "ledger.jsonl"))
        began = None
        last, steps, due = time.monotonic(), 0, {}
        every = self.intervals()
        while True:
            now = time.monotonic()
            for line in ledger.new():
                if "step" in line:
                    last, steps = now, max(steps, line["step"] + 1)
                    self.at_last_step = {worker for _, _, worker in self.workers()}
                    began = began or now
            if began and not due:
                due = self.begin_plan(now)
            for what, when in due.items():
                if now >= when and not self.done and getattr(self, what)():
                    due[what] = max(now, when) + self.pause(what, every[what])
            self.mend()
            codes = [front.poll() for node, front in enumerate(self.fronts) if node not in self.back]
            self.done = self.done or steps >= self.args.steps or 0 in codes
            if self.done and not self.back and all(code is not None for code in codes):
                break
            if now - last > PATIENCE:
                raise RuntimeError(f"no step for {PATIENCE:.0f} s")
            ended = {node: front.returncode for node, front in enumerate(self.fronts)
                     if node not in self.back and front.poll() not in (None, 0)}
            if ended and not self.done:
                raise RuntimeError(f"mtrun ended by itself: node -> status {ended}")
            counts = [f"{what} {sum(entry[1] == what for entry in self.log)}"
                      for what in ("worker", "agent", "node", "leave", "join", "service")]
            progress.show(f"step {steps} of {self.args.steps}; {', '.join(counts)}")
            time.sleep(0.005)
        self.began, self.ended = began, last
        if self.service:
            self.service.terminate()
            self.service.wait()
        progress.end()

    def undisturbed(self):
        """The same run alone; its folder."""
        argv = self.trainer(os.path.join(self.folder, "alone"))
        done = subprocess.run([os.path.join(self.args.bin, argv[0])] + argv[1:], env=self.environment, capture_output=True,
                              text=True)
        if done.returncode:
            raise RuntimeError(f"the undisturbed run ended with {done.returncode}: {done.stderr[-2000:]}")
        return os.path.join(self.folder, "alone")


def main(argv):
    args = parse(argv)
    if args.minutes:
        return train_storm.main(args)
    print(f"chaos train --interval {args.interval:g}{' --regular' if args.regular else ''} "
          f"--step_seconds {args.step_seconds:g} --steps {args.steps} --nodes {args.nodes} "
          f"--per_node {args.per_node} --leaves {args.leaves:g} --seed {args.seed}", flush=True)
    training = Training(args)
    good = False
    try:
        training.run()
        left = training.cluster.processes()
        bad_ends = training.bad_ends + ended_badly(training.fronts, training.hit)
        good = storm.report(args, training, training.undisturbed(), left, bad_ends)
    except RuntimeError as error:
        print(f"chaos: {error}")
    finally:
        training.cluster.close()
    print("the run is the undisturbed one" if good else f"NOT the undisturbed run; everything is in {training.folder}")
    if good and not args.keep:
        shutil.rmtree(training.folder)
    else:
        print(f"kept: {training.folder}")
    return 0 if good else 1
