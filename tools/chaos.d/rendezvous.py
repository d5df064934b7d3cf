"""Chaos over the rendezvous: nodes of toy workers, and spares, under a schedule of faults."""
import collections
import json
import os
import secrets
import sys
import tempfile
import time

import cluster
import disk
import faults
import help_page
import properties
import schedule
import screen
import services
import storm
from node import WHOLE

USAGE = """Breaks a job of toy workers on four nodes, and proves who was a member of it, with which rank.

examples:
  # two minutes of faults, half of them with a service of its own, half with a list of three
  tools/chaos rendezvous
  # the same schedule again: a fault meets the next node that is whole
  tools/chaos rendezvous --minutes 2 --seed 7
  # no faults: no generation may end
  tools/chaos rendezvous --quiet --minutes 1

Nodes are network namespaces on a bridge, some of them spares. Their workers take steps together.
Workers, agents, whole nodes and the service are killed, nodes leave and join, agents freeze,
cables and uplinks are cut, the disk of the logs fills, jobs end and the next ones take their id.
Then all is repaired and the job must form again. The event logs and the workers' own records must
show that every property held. The settings share the time:
  one     a service of its own
  list    the mtruns of three nodes host one each, and one of them dies for good
  hosted  the mtrun of node 0 hosts the only one, and survives unless --host_dies is given
Exit status: 0 all properties held, 1 one did not, 77 no namespaces here."""
CALM_SECONDS = 3.0    # at the start: no generation may dissolve
DISK_MIB = 32         # hours of the toys' logs
FEW_STEPS = 20        # steps of a job before it ends
HEARD_SECONDS = 0.2   # time within which an mtrun tries to write its worker's output
MEND_SECONDS = 120.0  # bound on mending all faults, after the last one was due


class Chaos(faults.Faults):
    """One storm."""

    def __init__(self, args, setting="one", minutes=None):
        self.setting, self.minutes = setting, minutes or args.minutes
        self.folder = tempfile.mkdtemp(prefix="mtrun-chaos-")
        os.mkdir(os.path.join(self.folder, "records"))
        self.logs = os.path.join(self.folder, "disk")
        self.environment = {**os.environ, "MTRUN_CHAOS_RECORDS": os.path.join(self.folder, "records"),
                            "MTRUN_TOKEN": "mtrun1-" + secrets.token_hex(32), "TMPDIR": self.folder,
                            "XDG_STATE_HOME": self.folder}
        machines = cluster.make_cluster(args.nodes + args.spares, "chaos")
        super().__init__(args, machines,
                         services.Services(machines, setting, args.bin, self.folder, self.environment),
                         [disk.Disk(self.logs, DISK_MIB)])
        self.burners = []
        self.records = storm.Tails(os.path.join(self.folder, "records", "*.jsonl"))
        self.commits, self.steps = [], collections.Counter()  # steps of all workers; steps of each job
        self.spoke = {}  # host -> when one of its workers printed its newest line
        self.progress = screen.Progress(f"chaos ({setting})")
        self.formed_again = float("nan")

    def conf(self):
        return f"last_call_timeout=0.5,fence_timeout={schedule.FENCE_SECONDS:g}"

    def program(self, node):
        halves = ["cooperative", "ordinary"][node.number % self.args.nodes >= self.args.nodes // 2]
        kind = {"mixed": halves}.get(self.args.workers, self.args.workers)
        return ["--no_python", sys.executable, "-I", "-S", os.path.join(os.path.dirname(__file__), "toy.py"), kind]

    # ---- the nodes' records

    def commits_of_all(self, since):
        """Returns the time of the first step after `since` that all workers committed, or None."""
        world = self.args.nodes * self.args.per_node
        for record in self.records.new():
            if record["kind"] == "spoke":
                self.spoke[record["host"]] = record["t"]
            if record["kind"] == "commit":
                self.steps[record["job"]] += 1
                self.commits += [record["t"]] if (record["world"], record["job"]) == (world, self.job) else []
        later = [when for when in self.commits if when > since]
        self.commits = later or self.commits
        return min(later, default=None)

    # ---- the run

    def has_run(self):
        """Returns whether the current job has taken some steps."""
        self.commits_of_all(0.0)
        return self.steps[self.job] >= FEW_STEPS

    def has_refused(self, disk, since):
        """Toys print a line regularly, so a full disk has refused one if all have printed."""
        self.commits_of_all(0.0)
        heard = {f"node{node.number}" for node in self.nodes if node.state == WHOLE}
        return super().has_refused(disk, since) and any(since < when < time.monotonic() - HEARD_SECONDS
                                                        for host, when in self.spoke.items() if host in heard)

    def finish_work(self):
        """Tells the toys by a file."""
        with open(os.path.join(self.folder, f"done-{self.job}"), "w", encoding="ascii"):
            pass

    def turn(self):
        super().turn()
        if self.ending and time.monotonic() - self.ending > faults.FORM_SECONDS:
            self.problems.append(f"job {self.job} did not end within {faults.FORM_SECONDS:.0f} s")
            self.ending = None

    def wait_for_all(self, since, what):
        end = since + faults.FORM_SECONDS
        while time.monotonic() < end:
            self.turn()
            self.progress.show(f"{what}: waiting for a step of all workers")
            if (when := self.commits_of_all(since)) is not None:
                return when - since
        self.problems.append(f"{what}: no step of all workers within {faults.FORM_SECONDS:.0f} s")
        return float("nan")

    def begin(self):
        """Starts everything and returns the time."""
        began = time.monotonic()
        self.burners = [self.cluster.start(cluster.HUB, ["sh", "-c", "while :; do :; done"], os.devnull, self.environment)
                        for _ in range(self.args.load)]
        self.services.start()
        for node in self.nodes:
            node.start()
        return began

    def run(self):
        args = self.args
        began = self.begin()
        for node in self.nodes:
            self.record("join", faults.FORM_SECONDS, node=node.number)
        self.wait_for_all(began, "at the start")
        calm = time.monotonic()
        for fault in self.fired:
            fault["to"] = calm - properties.BLAME_SECONDS  # no later event can be blamed on it
        seconds = max(1.0, self.minutes * 60 - (calm - began) - 2 * CALM_SECONDS)
        if not args.quiet:
            self.schedule(schedule.make(args.seed, seconds, args.gap, len(self.nodes), self.kinds(), args.each),
                          CALM_SECONDS)
        end = calm + CALM_SECONDS + seconds
        while time.monotonic() < end or not (self.is_calm() or self.is_stuck(end)):
            self.turn()
            self.progress.show(", ".join(f"{kind} {count}" for kind, count in self.counts().items()))
        self.formed_again = self.wait_for_all(time.monotonic(), "after the last fault")
        self.settle()
        self.finish()

    def is_stuck(self, end):
        if time.monotonic() < end + MEND_SECONDS:
            return False
        late = ", ".join(f"the mtrun of job {late.job} on node{late.node.number}" for late in self.late)
        self.problems.append(f"{MEND_SECONDS:.0f} s after the last fault was due job {self.job} "
                             f"{'ends' if self.ending else 'runs' if self.has_run() else 'has not run'}, late: {late or 'nobody'}, "
                             f"{len(self.todo)} faults are not over")
        return True

    def kinds(self):
        return schedule.kinds_for(self.setting, self.args.without.split(","))

    def counts(self):
        return {kind: sum(fault["kind"] == kind for fault in self.fired) for kind in self.kinds()}

    def finish(self):
        """Ends the work: every process must exit on its own with 0."""
        self.progress.show("ending the job", now=True)
        self.finish_work()
        end = time.monotonic() + faults.END_SECONDS
        for node in self.nodes:
            while node.runs() and node.front.poll() is None and time.monotonic() < end:
                time.sleep(0.01)
            if node.runs() and node.front.poll() != 0:
                self.problems.append(f"node{node.number}: mtrun ended with {node.front.poll()} instead of 0 (None: not at all)"
                                     f"{node.last_words()}")
        for process in self.burners:
            process.terminate()
            process.wait()
        self.services.stop()
        time.sleep(0.2)
        left = self.cluster.processes()
        if left:
            self.problems.append(f"{len(left)} processes are left: {left}")
        self.progress.end()

    # ---- the verdict

    def report(self):
        offset = time.time() - time.monotonic()
        with open(os.path.join(self.folder, "faults.json"), "w", encoding="utf-8") as file:
            json.dump({"wall_minus_monotonic": offset, "faults": self.fired, "over": self.over}, file)
        evidence = properties.Evidence(self.folder, offset)
        counts = {**self.counts(), "join": sum(f["kind"] == "join" for f in self.fired) - len(self.nodes),
                  "spare": properties.spares_used(evidence, self.fired)}
        self.show_faults(counts, properties.pauses(evidence, self.fired))
        checks = properties.check(evidence, self.fired, self.over)
        checks.append((f"formed again after the last fault within {faults.FORM_SECONDS:.0f} s, all ended with 0, nothing is left",
                       f"{self.formed_again:.2f} s", self.problems))
        print()
        violations = show(checks)
        wanted = self.kinds() + (["spare"] if self.args.spares and self.args.each > 1 else [])  # one fault each: luck
        scarce = [] if self.args.quiet else schedule.scarce(counts, wanted, self.args.each)
        if scarce:
            print(f"fewer than {self.args.each} of: {', '.join(scarce)}")
        return violations + scarce

    def show_faults(self, counts, pauses):
        total = sum(counts[kind] for kind in self.kinds())
        print(f"{self.setting}: {total} faults in {self.minutes:.1f} minutes, seed {self.args.seed}, {len(self.over)} jobs before "
              f"the last; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores. The pause of a fault: the longest time without "
              "a step that begins within 2.5 s of it")
        texts = {**schedule.KINDS, "join": "a node starts mtrun (again)", "spare": "of these: a spare took a dead node's place"}
        screen.table(["fault", "fired", "pause p50 s", "max s", "what"],
                     [[kind, count, f"{screen.quantile(pauses[kind], 0.5):.2f}" if pauses.get(kind) else "-",
                       f"{max(pauses[kind]):.2f}" if pauses.get(kind) else "-", texts[kind]] for kind, count in counts.items()])


def show(checks):
    """Prints the verdicts; returns the violations."""
    screen.table(["property", "seen on", "held"],
                 [[name, seen, "yes" if not found else f"NO ({len(found)})"] for name, seen, found in checks])
    violations = [violation for _, _, found in checks for violation in found]
    for violation in violations[:20]:
        print("  " + violation)
    return violations


def check_again(folder):
    """Repeats the verdict on a run kept with --keep."""
    saved = {"wall_minus_monotonic": 0.0, "faults": [], "over": {}}
    if os.path.exists(os.path.join(folder, "faults.json")):
        with open(os.path.join(folder, "faults.json"), encoding="utf-8") as file:
            saved = json.load(file)
    evidence = properties.Evidence(folder, saved["wall_minus_monotonic"])
    over = {int(job): when for job, when in saved["over"].items()}
    return 1 if show(properties.check(evidence, saved["faults"], over)) else 0


def parse(argv):
    parser = help_page.Parser("tools/chaos rendezvous", USAGE, "tools/chaos rendezvous [flags]")
    add = parser.add_argument
    add("--minutes", type=float, default=2, metavar="N", help="Length of the faults, over all settings. [2]")
    add("--seed", type=int, default=int(os.environ.get("MTRUN_SEED", "0")) or secrets.randbelow(10**6), metavar="N",
        help="Seed of the schedule. [$MTRUN_SEED, else random]")
    add("--settings", default="one,list", metavar="NAME,...", help="Settings: of one, list, hosted. [one,list]")
    add("--keep", action="store_true", help="Keep logs and records, and print where.")
    add("--check", metavar="FOLDER", help="Only check what a run with --keep has left there.")
    add("--gap", type=float, default=2.5, metavar="SECONDS", help="Mean time between two faults. [2.5]")
    add("--each", type=int, default=0, metavar="N", help="Faults of each kind that must fire in each setting. [0]")
    add("--without", default="", metavar="KIND,...", help="Faults to leave out.")
    add("--quiet", action="store_true", help="No faults: no generation may end.")
    add("--host_dies", action="store_true", help="hosted: node 0 dies and leaves as the others do.")
    add("--workers", choices=["mixed", "cooperative", "ordinary"], default="mixed",
        help="Kind of the workers; mixed: cooperative on the first half of the nodes. [mixed]")
    add("--nodes", type=int, default=4, metavar="N", help="Maximum number of nodes of a job. [4]")
    add("--spares", type=int, default=2, metavar="N", help="Further nodes. [2]")
    add("--min_nodes", type=int, default=2, metavar="N", help="Minimum number of nodes of a job. [2]")
    add("--per_node", type=int, default=2, metavar="N", help="Workers of a node. [2]")
    add("--load", type=int, default=0, metavar="N", help="Processes that keep the processors busy. [0]")
    add("--bin", default=os.environ.get("MT_BIN", "build/release/bin"), metavar="FOLDER",
        help="Folder of mtrun and mtrdzv. [$MT_BIN, else build/release/bin]")
    args = parser.parse_args(argv)
    args.bin = os.path.abspath(args.bin)
    if set(args.settings.split(",")) - set(services.SETTINGS):
        parser.error(f"--settings are some of {', '.join(services.SETTINGS)}")
    return args


def main(argv):
    args = parse(argv)
    if args.check:
        return check_again(args.check)
    print(f"chaos rendezvous --minutes {args.minutes:g} --seed {args.seed} --gap {args.gap:g} --workers {args.workers} "
          f"--settings {args.settings} --nodes {args.nodes} --spares {args.spares}", flush=True)
    return faults.run_storms(Chaos, args, "all held")
