"""Chaos over training: workers, agents, nodes and services die, nodes leave and join; the run must not change."""
import os
import random
import secrets
import shutil
import signal
import subprocess
import tempfile
import time

import cluster
import help_page
import node as nodes
import packed
import screen
import services
import storm
import train_storm

USAGE = """Breaks training runs, and proves that they compute what an undisturbed run computes.

examples:
  # a failure every 11 seconds on average; prints the time that is lost
  tools/chaos train --interval 11 --steps 100
  # a storm: runs under one id for four minutes, with the faults of tools/chaos rendezvous
  tools/chaos train --minutes 4
  # everything that can happen to machines, networks and disks: 18 minutes
  tools/chaos train --wide

The run is cnnA in float64, on nodes that are network namespaces. Failures are a Poisson process
and hit a member of the running group: a worker, an agent or a whole node. With --leaves nodes
also leave by a signal and come back; the service is killed too. Steps last at least
--step_seconds without using the processors. The end prints committed and attempted steps, time
goodput, the ledger's verdict, and a comparison of each step's loss with an undisturbed run.

With --minutes it is a storm: runs of --steps steps follow each other under one id. Each begins
when the last one has ended, while a node of that one is still late. The disks of the run folders
fill, too. The settings share the time: one, list or hosted (the service, as in tools/chaos
rendezvous), each with :shared or :own run folders. Checks of each run: its ledger and losses,
that no two generations write at a time, and that at most one step is repeated if a member has
survived.

With --wide the storm also freezes nodes for longer than their lease and kills those that continued,
starts all nodes cold in any order, moves clocks, breaks cables in one direction, loses and corrupts
packets, makes disks read-only, and drains nodes that are cut off. No checkpoint may be deleted
before one that descends from it exists. No generation may begin below a checkpoint that a member
could read. Losses and weights have the bits of the undisturbed run. A second program checks the
ledgers, too.
Exit status: 0 all properties held, 1 one did not, 77 no namespaces here."""
PORT = 29400
PATIENCE = 120.0  # maximum time without a new step
CALM_SECONDS = 10.0  # without a new step, after which the service is spared: longer than a takeover and a restart
WIDE_MINUTES = 3.0  # per setting


def parse(argv):
    parser = help_page.Parser("tools/chaos train", USAGE, "tools/chaos train [flags]")
    add = parser.add_argument
    add("--interval", type=float, default=11.0, metavar="SECONDS", help="Mean time between two failures. [11]")
    add("--steps", type=int, metavar="N", help="Steps of a run, in epochs of 20. [100; in a storm 80; wide 240]")
    add("--minutes", type=float, default=0, metavar="N", help="Length of a storm. [no storm; wide: 3 for each setting]")
    add("--wide", action="store_true", help="A storm with more kinds of faults.")
    add("--settings", metavar="NAME,...", help="Settings of a storm. [one:shared,list:own; wide: all six]")
    add("--seed", type=int, default=int(os.environ.get("MTRUN_SEED", "0")) or secrets.randbelow(10**6), metavar="N",
        help="Seed of the schedule. [$MTRUN_SEED, else random]")
    add("--keep", action="store_true", help="Keep logs and runs, and print where.")
    add("--regular", action="store_true", help="Failures exactly --interval apart, as in torchft's figures.")
    add("--step_seconds", type=float, metavar="SECONDS", help="Length of a step; 0: what it takes. [2; in a storm 0.4]")
    add("--leaves", type=float, default=0.0, metavar="SECONDS", help="Mean time between two nodes that leave; 0: none. [0]")
    add("--service_interval", type=float, default=30.0, metavar="SECONDS",
        help="Mean time between two kills of the service; 0: none. [30]")
    add("--down", type=float, default=1.0, metavar="SECONDS", help="Mean time until a node is started again. [1]")
    add("--victims", default="worker:3,agent:1,node:1", metavar="KIND:WEIGHT,...",
        help="What failures hit. [worker:3,agent:1,node:1]")
    add("--nodes", type=int, metavar="N", help="Maximum number of nodes of a job. [4; in a storm 3]")
    add("--per_node", type=int, default=1, metavar="N", help="Workers of a node. [1]")
    add("--max_restarts", type=int, default=100000, metavar="N", help="Failures that the job survives. [100000]")
    add("--gap", type=float, metavar="SECONDS",
        help="Storm: mean time between two faults, in a wide one between two of the kinds that all have. [4; wide 8]")
    add("--each", type=int, default=0, metavar="N", help="Storm: faults of each kind that must fire in each setting. [0]")
    add("--spares", type=int, default=2, metavar="N", help="Storm: further nodes. [2]")
    add("--min_nodes", type=int, default=1, metavar="N", help="Storm: minimum number of nodes of a job. [1]")
    add("--without", default="", metavar="KIND,...", help="Storm: faults to leave out.")
    add("--host_dies", action="store_true", help="Storm, hosted: node 0 dies and leaves as the others do.")
    add("--bin", default=os.environ.get("MT_BIN", "build/release/bin"), metavar="FOLDER",
        help="Folder of the programs. [$MT_BIN, else build/release/bin]")
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
    """Returns the mtruns without a fault that did not exit with 0: one per node, None if there was none."""
    return [f"mtrun of node {node} ended with {front.returncode}" for node, front in enumerate(fronts)
            if front is not None and front not in hit and front.returncode != 0]


class Training:
    def __init__(self, args):
        self.args, self.choose = args, random.Random(args.seed)
        self.folder = tempfile.mkdtemp(prefix="mtrun-train-")
        self.data = packed.write(os.path.join(self.folder, "data"))
        self.environment = {**os.environ, "MTRUN_TOKEN": "mtrun1-" + secrets.token_hex(32), "TMPDIR": self.folder, "XDG_STATE_HOME": self.folder, "OMP_NUM_THREADS": "1",
                            "MTRUN_TRAINER_PATH": args.bin, "LOGLEVEL": "debug"}
        self.cluster = cluster.make_cluster(args.nodes, "chaos")
        self.fronts = [None] * args.nodes
        self.back = {}          # node -> time of its restart
        self.service, self.service_back = None, None
        self.last_step = time.monotonic()
        self.log = []           # (wall time, what, node)
        self.at_last_step = set()  # pids of the workers when the ledger's newest step was seen
        self.hit, self.told = set(), set()  # mtruns that were killed or drained; the drained ones
        self.bad_ends = []      # bad exits, in words
        self.done = False

    # ---- processes

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

    # ---- faults

    def workers(self):
        """Returns (node, agent, worker) of all workers that should be up."""
        found = []
        for node, front in enumerate(self.fronts):
            if front is None or node in self.back:
                continue
            agent = cluster.agent(front.pid)
            for worker in storm.children(agent):
                found.append((node, agent, worker))
        return found

    def members(self):
        """Returns the members of the group. In a world of one node it is the oldest of those seen at the last step: a
        worker that is starting is not a member, and a node whose workers repeatedly fail to start gives up."""
        found = self.workers()
        connected = [each for each in found if storm.is_connected(each[2])]
        were_there = [each for each in found if each[2] in self.at_last_step]
        return connected or sorted(were_there, key=lambda each: storm.age(each[2]))[:1]

    def fail(self):
        """Makes a member fail; returns False if there is none."""
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
        """Drains a node, but never the last one. Before its agent exists, mtrun may not react to a signal yet."""
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
        """Does not kill it while no step is taken: a service that is killed every few seconds sees no lease end."""
        if self.service is None or time.monotonic() - self.last_step > CALM_SECONDS:
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
        """Returns the seconds until the next one."""
        return mean if what == "fail" and self.args.regular else self.choose.expovariate(1 / mean)

    def intervals(self):
        """Returns the mean intervals of the requested faults."""
        every = {"fail": self.args.interval, "leave": self.args.leaves, "kill_service": self.args.service_interval}
        return {what: mean for what, mean in every.items() if mean}

    def begin_plan(self, now):
        """Returns when the first fault of each kind is due: soon enough for storm.never_done."""
        return {what: now + min(self.pause(what, mean), storm.FIRST_INTERVALS * mean) for what, mean in self.intervals().items()}

    def run(self):
        self.start_service()
        for node in range(self.args.nodes):
            self.start_node(node)
        progress, ledger = screen.Progress("chaos"), storm.Tail(os.path.join(self.folder, "run", "ledger.jsonl"))
        began = None
        steps, due = 0, {}
        every = self.intervals()
        while True:
            now = time.monotonic()
            for line in ledger.new():
                if "step" in line:
                    self.last_step, steps = now, max(steps, line["step"] + 1)
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
            if now - self.last_step > PATIENCE:
                raise RuntimeError(f"no step for {PATIENCE:.0f} s")
            ended = {node: front.returncode for node, front in enumerate(self.fronts)
                     if node not in self.back and front.poll() not in (None, 0)}
            if ended and not self.done:
                raise RuntimeError(f"mtrun ended by itself: node -> status {ended}")
            counts = [f"{what} {sum(entry[1] == what for entry in self.log)}"
                      for what in ("worker", "agent", "node", "leave", "join", "service")]
            progress.show(f"step {steps} of {self.args.steps}; {', '.join(counts)}")
            time.sleep(0.005)
        self.began, self.ended = began, self.last_step
        if self.service:
            self.service.terminate()
            self.service.wait()
        progress.end()

    def undisturbed(self):
        """Runs the same run undisturbed; returns its folder."""
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
