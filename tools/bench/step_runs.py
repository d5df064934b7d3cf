"""Runs of a trainer for tools/bench/step and tools/bench/compare: their cost, and the ends of their steps."""
import collections
import json
import os
import resource
import statistics
import subprocess
import tempfile
import time

import paired

Recipe = collections.namedtuple("Recipe", "micro steps amp")  # micro-batch of a worker; amp: "off" or "bf16"
CPU = {"cnnA": [Recipe(4, 3000, "off"), Recipe(16, 1500, "off"), Recipe(64, 450, "off")], "cnnB": [Recipe(8, 8, "off")],
       "vit": [Recipe(8, 24, "off")], "diffusion": [Recipe(4, 10, "off")], "resnet18": [Recipe(4, 8, "off")]}
GPU = {"cnnA": [Recipe(64, 2000, "off")], "cnnB": [Recipe(512, 100, "bf16")], "vit": [Recipe(128, 300, "bf16")],
       "diffusion": [Recipe(64, 200, "bf16")], "resnet18": [Recipe(64, 200, "bf16")]}
# Our flags; the Python side uses the same recipe by name.
FLAGS = {
    "cnnA": ["--learning_rate", "0.001", "--augment=false"],
    "cnnB": ["--learning_rate", "0.0001", "--augment=false", "--schedule", "constant"],
    "vit": ["--learning_rate", "0.0003", "--augment=false", "--dropout", "0", "--drop_path", "0"],
    "diffusion": ["--channels", "32", "--learning_rate", "0.0002", "--augment=false", "--clip_norm", "0", "--ema_decay", "0",
                  "--image_size", "32"],
    "resnet18": ["--learning_rate", "0.001", "--augment=false", "--warmup_steps", "0", "--train", "last", "--accumulation_steps", "1"],
}
WINDOWS = 10
LOOK = 0.002  # seconds between two polls of a ledger


def step_seconds(ends):
    """Returns the seconds of a step. ends: [(steps done, seconds)]. Ignores the first fifth, which warms up caches;
    takes the median of up to ten equal parts of the rest, so that a step includes the time until the next one."""
    ends = ends[max(2, len(ends) // 5) - 1:]
    parts = min(WINDOWS, len(ends) - 1)
    marks = [ends[(len(ends) - 1) * part // parts] for part in range(parts + 1)]
    return statistics.median((b[1] - a[1]) / (b[0] - a[0]) for a, b in zip(marks, marks[1:]))


class World:
    """Runs one command for each rank, all on this machine's processors in equal shares."""

    def __init__(self, workers):
        self.workers = workers

    def threads(self):
        return str(max(1, (os.cpu_count() or 1) // self.workers))

    def run(self, command, more=None, watch=lambda: None):
        """Returns the CPU seconds (user + system) of all ranks. Calls `watch` repeatedly while they run."""
        environment = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE", "MTRUN_SOCKET")}
        environment.update(more or {}, OMP_NUM_THREADS=self.threads())
        before, children = resource.getrusage(resource.RUSAGE_CHILDREN), []
        with paired.held_port() as port, tempfile.TemporaryFile("w+") as said:
            for rank in range(self.workers):
                env = dict(environment)
                if self.workers > 1:
                    env.update(RANK=str(rank), WORLD_SIZE=str(self.workers), LOCAL_RANK=str(rank),
                               LOCAL_WORLD_SIZE=str(self.workers), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
                children.append(subprocess.Popen(command, env=env, stdout=said, stderr=said))
            while any(child.poll() is None for child in children):
                watch()
                time.sleep(LOOK)
            watch()
            for child in children:
                if child.returncode != 0:
                    said.seek(0)
                    raise SystemExit(f"{command[0]} failed with {child.returncode}:\n{said.read()[-3000:]}")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


class LedgerWatch:
    """Records the times at which steps appeared in a run's ledger, which gets a line after every step."""

    def __init__(self, path):
        self.path, self.file, self.steps, self.ends, self.began = path, None, 0, [], time.perf_counter()

    def look(self):
        if self.file is None and os.path.exists(self.path):
            self.file = open(self.path, "rb", buffering=0)
        new = self.file.read().count(b'{"step":') if self.file else 0
        if new:
            self.steps += new
            self.ends.append((self.steps, time.perf_counter() - self.began))


def ours(bin_folder, data, name, world, folder, recipe, more, device="cpu"):
    """Runs our program in folder/run for recipe.steps steps, even if the data set is small, without checkpoints.
    Returns {"step": seconds of a whole step, including its ledger and metrics lines; "cpu": CPU seconds of the run;
    "losses": of each step; "mib": peak memory of a worker}."""
    run = os.path.join(folder, "run")
    watch = LedgerWatch(os.path.join(run, "ledger.jsonl"))
    subprocess.run(["rm", "-rf", run], check=True)  # the ledger must be the new run's
    peak = os.path.join(folder, "peak")
    # /usr/bin/time is not always installed, so a wrapper reports its only child's usage.
    wrapper = ["python3", "-c", ("import subprocess, sys, resource; code = subprocess.call(sys.argv[2:]); "
                                "open(sys.argv[1], 'w').write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)); sys.exit(code)"),
               peak]
    cpu = world.run(wrapper + [
        os.path.join(bin_folder, name), "--data", data, "--model_folder", run, "--shuffle=false", "--batch_size", str(recipe.micro),
        "--max_steps", str(recipe.steps), "--epochs", "100000", "--checkpoint_epochs", "0", "--checkpoint_seconds", "0", "--threads",
        world.threads(), "--eval_images", "1", "--resume=false", "--device", device, "--amp", recipe.amp] + FLAGS[name] + more, watch=watch.look)
    with open(os.path.join(run, "metrics.jsonl"), encoding="utf-8") as file:
        losses = [line["loss"] for line in map(json.loads, file) if "step" in line]
    with open(peak, encoding="ascii") as file:
        return {"step": step_seconds(watch.ends) if recipe.steps > 4 else None, "cpu": cpu, "losses": losses, "mib": float(file.read())}
