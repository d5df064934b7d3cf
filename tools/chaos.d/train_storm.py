"""A storm over consecutive training runs under one id: same samples, same losses, at most one step redone."""
import json
import math
import os
import random
import secrets
import subprocess
import tempfile
import time

import cluster
import disk
import faults
import packed
import properties
import runs
import schedule
import screen
import services

LAST_STEPS = 3     # of a run: no node starts any more, one becomes late
CALM_STEPS = 30    # with a list: no other faults during a run's last steps


class TrainStorm(faults.Faults):
    """One setting. `folders`: "shared", or "own" for one run folder per node."""

    SHUTDOWN_SECONDS = 20
    DISK_MIB = 24
    LEARNING_RATE = "0.05"
    PATIENCE_SECONDS = 60.0  # maximum time without a new step

    def __init__(self, args, setting, minutes):
        self.setting, self.minutes = setting, minutes
        where, self.folders = setting.split(":")
        folder = tempfile.mkdtemp(prefix="mtrun-train-")
        self.data = packed.write(os.path.join(folder, "data"))
        self.environment = {**os.environ, "MTRUN_TOKEN": "mtrun1-" + secrets.token_hex(32), "TMPDIR": folder, "XDG_STATE_HOME": folder, "OMP_NUM_THREADS": "1",
                            "MTRUN_TRAINER_PATH": args.bin, "LOGLEVEL": "debug", "MTRUN_PACE": str(args.step_seconds)}
        machines = cluster.make_cluster(args.nodes + args.spares, "chaos")
        count = machines.count if self.folders == "own" else 1
        disks = [disk.Disk(os.path.join(folder, f"disk-{number}"), self.DISK_MIB) for number in range(count)]
        super().__init__(args, machines, services.Services(machines, where, args.bin, folder, self.environment), disks)
        self.logs, self.choose = folder, random.Random(args.seed + 1)
        self.watched = [self.watch()]  # one per run
        self.last_step, self.stop = time.monotonic(), False
        self.progress = screen.Progress(f"chaos ({setting})")

    # ---- processes

    def conf(self):
        return f"last_call_timeout=1,fence_timeout={schedule.FENCE_SECONDS:g}"

    def run_folders(self):
        return [os.path.join(each.folder, f"run-{self.job}") for each in self.disks]

    def watch(self):
        """Watches the run that begins now."""
        return runs.Watch(self.run_folders())

    def program(self, node):
        return ["--trainer"] + self.trainer(self.run_folders()[node.number % len(self.disks)])

    def trainer(self, run):
        return ["cnnA", "--data", self.data, "--model_folder", run, "--epochs", str(self.args.steps // packed.STEPS),
                "--batch_size", "2", "--global_batch", str(packed.BATCH), "--precision", "float64", "--learning_rate", self.LEARNING_RATE,
                "--momentum", "0.9", "--threads", "1", "--checkpoint_seconds", str(self.args.step_seconds or 1)]

    # ---- the life of the storm

    def finish_work(self):
        """A run ends on its own."""

    def has_run(self):
        return True

    def next_runs(self, job):
        """Returns whether the next run has begun or none will. An earlier return would seem to continue the old run."""
        return (self.stop and self.job in self.over) or (self.job > job and self.watched[-1].steps > 0)

    def fire(self, fault):
        """Drops a fault that was not possible until the last run was over; the report lists what is scarce."""
        if not self.stop or self.job not in self.over:
            super().fire(fault)

    def turn(self):
        super().turn()
        now = time.monotonic()
        if self.watched[-1].look(now):
            self.last_step = now
        if now - self.stuck_since(now) > self.PATIENCE_SECONDS:
            heard = "".join(f"\n  node{node.number} ({node.state}):{node.last_words()}" for node in self.nodes)
            raise RuntimeError(f"run {self.job}: no step for {self.PATIENCE_SECONDS:.0f} s{heard}")
        if self.services.hosts:
            self.wants_calm = self.watched[-1].steps >= self.args.steps - CALM_STEPS
        if not self.ending and self.watched[-1].steps >= self.args.steps - LAST_STEPS and self.job not in self.over:
            self.end_run()

    def stuck_since(self, _now):
        """Returns since when the run could have made a step."""
        return self.last_step

    def end_run(self):
        late = schedule.Fault(0.0, "reuse", self.choose.randrange(len(self.nodes)), self.choose.uniform(1.0, 6.0),
                              self.choose.random())
        if self.stop or self.late or not self.do_reuse(late):
            self.ending, self.late_record, self.wants_calm = time.monotonic(), None, False

    def next_job(self):
        if not self.stop:
            super().next_job()
            self.watched.append(self.watch())
            self.last_step = time.monotonic()
            return
        self.over[self.job], self.ending = time.monotonic(), None
        for node in self.nodes:
            if node.runs():
                node.changes = True
                self.late.append(faults.Late(node, self.job, None))

    def run(self):
        self.services.start()
        for node in self.nodes:
            node.start()
        began = time.monotonic()
        while not self.watched[0].steps:
            self.turn()
        end = began + self.minutes * 60
        self.schedule(self.plan(max(1.0, end - time.monotonic())), 0.5)
        while not self.stop or self.job not in self.over or not self.is_calm():
            self.turn()
            enough = min(self.job, self.counts()["reuse"]) >= self.args.each
            if enough and time.monotonic() > end and not self.ending and not self.late:
                self.stop = True  # a late node learns of it from the next run
            self.progress.show(f"run {self.job}, step {self.watched[-1].steps}: "
                               + ", ".join(f"{kind} {count}" for kind, count in self.counts().items()))
        self.services.stop()
        time.sleep(0.2)
        if left := self.cluster.processes():
            self.problems.append(f"{len(left)} processes are left: {left}")
        self.progress.end()

    def kinds(self):
        return schedule.kinds_for(self.setting.split(":")[0], self.args.without.split(",") + ["reuse"])

    def plan(self, seconds):
        return schedule.make(self.args.seed, seconds, self.args.gap, len(self.nodes), self.kinds(), self.args.each)

    def counts(self):
        kinds = self.kinds() + ["reuse"]
        return {kind: sum(fault["kind"] == kind for fault in self.fired) for kind in kinds}

    # ---- the verdict

    def undisturbed(self):
        """Runs the same run undisturbed; returns its losses."""
        return runs.losses([self.run_alone()])

    def run_alone(self):
        """Returns its folder."""
        folder = os.path.join(self.folder, "alone")
        argv = self.trainer(folder)
        environment = {key: value for key, value in self.environment.items() if key != "MTRUN_PACE"}
        done = subprocess.run([os.path.join(self.args.bin, argv[0])] + argv[1:], env=environment, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"the undisturbed run ended with {done.returncode}: {done.stderr[-2000:]}")
        return folder

    def report(self):
        offset = time.time() - time.monotonic()
        with open(os.path.join(self.folder, "faults.json"), "w", encoding="utf-8") as file:
            json.dump({"wall_minus_monotonic": offset, "faults": self.fired, "over": self.over}, file)
        evidence, expected = properties.Evidence(self.folder, offset), self.undisturbed()
        over = [0.0] + [self.over.get(job, math.inf) for job in range(len(self.watched))]
        found = [runs.verdict(watch, self.data, expected, evidence, self.fired, over[job: job + 2])
                 for job, watch in enumerate(self.watched)]
        counts = {**self.counts(), "spare": properties.spares_used(evidence, self.fired)}
        print(f"{self.setting}: {sum(self.counts().values())} faults in {self.minutes:.1f} minutes, seed {self.args.seed}, "
              f"{len(found)} runs of {self.args.steps} steps; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; "
              + ", ".join(f"{kind} {count}" for kind, count in counts.items()))
        screen.table(["run", "generations", "worlds", "redone", "at most one in", "began again", "loss differs", "samples"],
                     [[number, *each.row] for number, each in enumerate(found)])
        problems = self.problems + [f"run {number}: {problem}" for number, each in enumerate(found) for problem in each.problems]
        if self.args.each > 1 and not sum(each.row[3] for each in found if each.row[3] != "-"):
            problems.append("of no change of generation it could be said how many steps were taken again")
        for problem in problems[:20]:
            print("  " + problem)
        wanted = list(self.counts()) + (["spare"] if self.args.spares and self.args.each > 1 else [])
        scarce = schedule.scarce(counts, wanted, self.args.each)
        if scarce:
            print(f"fewer than {self.args.each} of: {', '.join(scarce)}")
        return problems + scarce


def main(args):
    """Runs a storm for each of the settings."""
    print(f"chaos train {'--wide ' if args.wide else ''}--minutes {args.minutes:g} --seed {args.seed} --gap {args.gap:g} --settings {args.settings} "
          f"--step_seconds {args.step_seconds:g} --steps {args.steps} --nodes {args.nodes} --spares {args.spares}", flush=True)
    kind = __import__("wide").WideStorm if args.wide else TrainStorm
    return faults.run_storms(kind, args, "every run is the undisturbed one")
