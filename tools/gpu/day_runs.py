"""The environment of a day: the installed PyTorch, and commands with a time limit, a log and clean-up."""
import contextlib
import glob
import json
import math
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

TORCH = "2.11"
MOST_SECONDS = 540  # per row
CUDA = "13"
LOOK = """
import json, os, torch
why = ""
try:
    torch.cuda.init()
except Exception as error:
    why = str(error)
print(json.dumps({"folder": os.path.dirname(os.path.dirname(torch.__file__)), "version": torch.__version__, "why": why,
                  "cuda": torch.version.cuda, "gpus": [] if why else [torch.cuda.get_device_name(i)
                                                                      for i in range(torch.cuda.device_count())]}))
"""


class Skip(Exception):
    """The reason why a row cannot run here."""


class Failure(Exception):
    """The reason of a failure."""


def find_torch(site_packages):
    """Returns {"folder", "version", "cuda", "gpus"} of the installed PyTorch. SystemExit if none fits."""
    environment = dict(os.environ)
    if site_packages:
        environment["PYTHONPATH"] = site_packages
    said = subprocess.run([sys.executable, "-c", LOOK], env=environment, capture_output=True, text=True, check=False)
    if said.returncode != 0:
        reason = (said.stderr.strip().splitlines() or ["nothing"])[-1]
        raise SystemExit(f"day: no PyTorch that works in {sys.executable} ({reason}): pip install torch=={TORCH}.0, or --torch "
                         "SITE_PACKAGES")
    found = json.loads(said.stdout.splitlines()[-1])
    check_torch(found, listed_gpus())
    return found


def listed_gpus():
    """Returns the names of this process's GPUs that nvidia-smi knows; "" if there are none."""
    if shutil.which("nvidia-smi") is None or os.environ.get("CUDA_VISIBLE_DEVICES") == "":
        return ""
    said = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True, check=False)
    return ", ".join(said.stdout.splitlines()) if said.returncode == 0 else ""


def check_torch(found, listed):
    """Exits if the day would not test this machine's GPUs."""
    version, cuda = found["version"], found["cuda"]
    if not version.startswith(TORCH + "."):
        raise SystemExit(f"day: PyTorch {version} is here, and this bundle was built for {TORCH}: pip install torch=={TORCH}.0")
    if cuda and cuda.split(".")[0] != CUDA:
        raise SystemExit(f"day: PyTorch {version} is for CUDA {cuda}, and this bundle was built for {CUDA}: pip install torch=={TORCH}.0")
    if listed and not found["gpus"]:
        raise SystemExit(f"day: nvidia-smi knows of {listed}, but PyTorch {version} of no GPU ({found['why']}); "
                         "CUDA_VISIBLE_DEVICES= tries the processors")


def links_cuda(program, libraries):
    """Returns whether `program` would start with CUDA, by the test of trainers/program/trainer.sh."""
    if not os.path.exists(program):
        return False
    said = subprocess.run([program], env={**os.environ, **libraries, "LD_TRACE_LOADED_OBJECTS": "1"}, capture_output=True, text=True,
                          check=False).stdout
    return "libtorch_cuda.so => " in said and "not found" not in said


class Day:
    def __init__(self, folder, torch, args):
        self.folder, self.torch, self.args = folder, torch, args
        lib = os.path.join(torch["folder"], "torch", "lib")
        # The existing path may contain the driver's folder.
        folders = [lib, *glob.glob(os.path.join(torch["folder"], "nvidia", "*", "lib")), os.environ.get("LD_LIBRARY_PATH", "")]
        # Only for the tests, because trainers find LibTorch by MT_TORCH_DIR.
        self.libraries = {"LD_LIBRARY_PATH": ":".join(filter(None, folders))}
        self.variant = "cuda" if links_cuda(self.path("libexec", "mtrun", "trainer-cuda"), self.libraries) else "cpu"
        self.device = "cuda" if self.variant == "cuda" and torch["gpus"] else "cpu"
        self.steps = args.steps or (200 if self.device == "cuda" else 5)
        self.end = time.monotonic() + args.seconds
        self.deadline = min(self.end, time.monotonic() + MOST_SECONDS)  # of the current row
        self.scratch = tempfile.mkdtemp(prefix="mtrun_day_")
        self.environment = {**os.environ, "MT_TORCH_DIR": torch["folder"], "MT_BIN": self.path("libexec", "mtrun", "trainers"),
                            "MT_SOURCE_DIR": folder, "XDG_STATE_HOME": self.scratch, "PYTHONPATH": torch["folder"],
                            "MT_PEERS_PYTHON": sys.executable}

    def path(self, *parts):
        """Returns a path in the bundle."""
        return os.path.join(self.folder, *parts)

    def trainers(self):
        """The names of those in the bundle."""
        return sorted(os.listdir(self.path("libexec", "mtrun", "trainers")))

    def beside(self, ending):
        """Returns a file beside the results."""
        return os.path.splitext(os.path.abspath(self.args.out))[0] + ending

    @contextlib.contextmanager
    def start(self, command, more=None):
        """Yields the process, its output file, and the output's start; afterwards ends all that it has started."""
        with open(self.beside(".log"), "a+b") as log:
            log.write(f"== {shlex.join(command)}\n".encode())
            log.flush()
            said = log.tell()  # shared with the child's position
            child = subprocess.Popen(command, env={**self.environment, **(more or {})}, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            try:
                yield child, log, said
            finally:
                child.kill()
                child.wait()
                kill_all()

    def run(self, command, more=None):
        """Returns the output and the seconds. The limit is the rest of the row's time."""
        began = time.monotonic()
        with self.start(command, more) as (child, log, said):
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(timeout=max(1, self.deadline - began))
            took, status = time.monotonic() - began, child.poll()
            log.seek(said)
            text = log.read().decode(errors="replace")
        if status != 0:
            raise Failure(f"{'not done after' if status is None else f'status {status} after'} {took:.0f} s: {tail(text)}")
        return text, took

    def flags(self, run, *more, device=""):
        return ["--data", self.path("data"), "--model_folder", os.path.join(self.scratch, run), "--max_steps",
                str(self.steps), "--device", device or self.device, "--eval_images", "100", *more]

    def losses(self, run):
        """Returns {step: loss}; for a repeated step the last one."""
        found = {}
        with open(os.path.join(self.scratch, run, "metrics.jsonl"), encoding="utf-8") as file:
            for line in map(json.loads, file):
                if "rewind" in line:
                    found = {step: loss for step, loss in found.items() if step < line["rewind"]}
                if "loss" in line and "step" in line:
                    found[line["step"]] = line["loss"]
        return found

    def trainer(self, name, run, *more, device=""):
        """Returns loss and number of its last step."""
        self.run([self.path("libexec", "mtrun", "trainers", name), *self.flags(run, *more, device=device)])
        losses = self.losses(run)
        return f"step {max(losses)}, loss {losses[max(losses)]:.4f}"

    def launch(self, workers, name="cnnA"):
        """Returns a launch of one node, or of a node per worker if each needs a GPU and all must share one."""
        mtrun, trainer = self.path("bin", "mtrun"), ["--max_restarts", "1000", "--trainer", name]
        if self.device == "cpu" or workers <= len(self.torch["gpus"]):
            return [mtrun, "--standalone", "--nproc_per_node", str(workers), *trainer]
        return [sys.executable, self.path("nodes.py"), str(workers), mtrun, "--nnodes", str(workers), *trainer]

    def workers(self):
        return max(2, len(self.torch["gpus"])) if self.device == "cuda" else 2

    def need_gpus(self, count):
        """Raises Skip if there are fewer GPUs."""
        if len(self.torch["gpus"]) < count:
            raise Skip(f"needs {count} GPUs: workers that share one wait for each other's turn")

    def need_modules(self):
        """Checks the modules of the Python benchmark. Skip says how to install them."""
        try:
            self.run([sys.executable, "-c", "import numpy, safetensors.torch"])
        except Failure as why:
            raise Skip(f"{sys.executable} -m pip install numpy safetensors, which the benchmark's Python side imports ({why})") from why

    def verify(self, run):
        text, _ = self.run([sys.executable, os.path.join(self.folder, "tools", "verify_ledger"), os.path.join(self.scratch, run),
                            "--partial", "--data", os.path.join(self.folder, "data")])
        return text.strip().splitlines()[-1]


def apart(got, want, most):
    """Returns the difference of two runs' losses in words. Failure if one exceeds `most` or steps are missing."""
    if not want or got.keys() != want.keys():
        raise Failure(f"{len(got)} steps instead of {len(want)}")
    by_step = {step: abs(got[step] - loss) / abs(loss) for step, loss in want.items()}
    step = next((step for step, found in by_step.items() if math.isnan(found)), max(by_step, key=by_step.get))
    furthest = by_step[step]
    if not furthest <= most:
        raise Failure(f"step {step}: loss {got[step]:.9g} instead of {want[step]:.9g}, {most:g} of it is allowed")
    return f"{len(want)} steps, losses within {furthest:.1g}"


def tail(text):
    return " | ".join(text.strip().splitlines()[-3:])[-300:]


def processes(variable):
    """Returns the processes started by this day, directly or not, whose environment has `variable`."""
    found = []
    for entry in glob.glob("/proc/[0-9]*/environ"):
        try:
            with open(entry, "rb") as file:
                variables = file.read()
        except OSError:
            continue
        pid = int(entry.split("/")[2])
        if pid != os.getpid() and f"MTRUN_DAY={os.getpid()}\0".encode() in variables and variable in variables:
            found.append(pid)
    return found


def kill_all():
    """Kills everything that this day started, because survivors would hold the GPU's memory; waits a minute at most. A
    process has no environment during exec, so several scans must find nothing."""
    until, looks = time.monotonic() + 60, 0
    while looks < 5 and time.monotonic() < until:
        left = processes(b"MTRUN_DAY=")
        looks = 0 if left else looks + 1
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
