"""Shared by the tests of packages: locations, checked commands, and a training in which a worker is killed."""
import glob
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

TOP = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
RELEASE = os.path.join(TOP, "build", "release")
FASHION = "/usr/share/datasets/fashion-mnist"
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")), "mtrun")
TORCH = os.environ.get("MT_TORCH_DIR", os.path.join(CACHE, "libtorch-2.11.0"))
PATIENCE = 300
COMMIT = r"\(commit ([0-9a-f]{8}|unknown)"

packages = os.path.join(TOP, "build", "packages")


def package(pattern):
    found = sorted(glob.glob(os.path.join(packages, pattern)))
    if not found:
        raise unittest.SkipTest(f"there is no {pattern} in {packages}: tools/package makes them")
    return found[-1]


def need_torch():
    if not os.path.exists(os.path.join(TORCH, "torch", "lib", "libtorch_cpu.so")):
        raise unittest.SkipTest("there is no LibTorch here: tools/setup")


def environment(**more):
    """Returns an environment without help from this machine's build and torch."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MT_", "MTRUN_", "PYTHON", "LD_"))}
    return {**kept, **more}


def run(*command, expected=0, patience=PATIENCE, **more):
    done = subprocess.run(command, capture_output=True, text=True, timeout=patience, check=False, **more)
    if done.returncode != expected:
        raise AssertionError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def files_of(folder):
    return {os.path.relpath(os.path.join(parent, name), folder) for parent, _, names in os.walk(folder) for name in names
            if not name.endswith(".pyc")}


def readme_commands():
    """Returns (the line that makes and enters an environment, the pip lines) of README's block about packages."""
    block = re.search(r"^```\n(python3 -m venv .*?)^```", text_of(os.path.join(TOP, "README.md")), re.S | re.M)
    lines = [line for line in block[1].splitlines() if not line.startswith("#")]
    return lines[0], [line for line in lines if line.startswith("pip install ")]


def main():
    """Runs unittest's main; an optional argument is the packages' folder. tools/test counts the lines about skips."""
    global packages
    if len(sys.argv) > 1 and os.path.isdir(sys.argv[1]):
        packages = os.path.realpath(sys.argv.pop(1))
    program = unittest.main(module="__main__", exit=False)
    for case, why in program.result.skipped:
        print(f"skip  {case.id()}: {why}")
    sys.exit(0 if program.result.wasSuccessful() else 1)


class Trying(unittest.TestCase):
    """A folder for each test, and the checks for every package."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def train_and_kill(self, mtrun, mtdata, verify, env, root="", within=()):
        """Trains on Fashion-MNIST with two workers and kills one: the run must end well with an exact ledger. Another
        system is at `root`; `within` starts a program there. Returns when two workers trained (time.monotonic())."""
        inside = "/root/try" if root else self.folder
        os.makedirs(root + inside, exist_ok=True)
        data, model = os.path.join(inside, "data"), os.path.join(inside, "run")
        run(*within, mtdata, "import", FASHION, data, env=env)
        command = [*within, mtrun, "--standalone", "--nproc_per_node", "2", "--max_restarts", "3", "--trainer", "cnnA", "--data", data,
                   "--model_folder", model, "--epochs", "2", "--batch_size", "32", "--global_batch", "128", "--threads", "1"]
        log = os.path.join(self.folder, "log")
        with open(log, "wb") as out:
            running = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=env, cwd=self.folder)
        try:
            trained = self.kill_a_worker(running, model, os.path.join(root + model, "metrics.jsonl"), log)
            self.assertEqual(running.wait(PATIENCE), 0, text_of(log))
        finally:
            if running.poll() is None:
                running.kill()
                running.wait()
        self.assertIn("killed by SIGKILL", text_of(log))
        self.assertIn("every sample exactly once", run(*within, "python3", verify, model, env=env))
        return trained

    def ask_trainers(self, mtrun, **more):
        """Checks that mtrun lists the installed trainers and reports a typo once, before any worker starts."""
        self.assertRegex(run(mtrun, "--trainer", "list", **more), r"(?m)^cnnA +Trains CNN-A")
        said = run(mtrun, "--standalone", "--nproc_per_node", "2", "--trainer", "cnnA", "--data", "d", "--lerning_rate", "1", expected=2, **more)
        self.assertEqual(said.count("unknown flag"), 1, said)
        self.assertNotIn("FAILED", said)

    def kill_a_worker(self, running, model, metrics, log):
        """Kills a worker once steps are recorded; returns the time."""
        deadline = time.monotonic() + PATIENCE
        while not (os.path.exists(metrics) and os.path.getsize(metrics) > 2000):
            self.assertIsNone(running.poll(), text_of(log))
            self.assertLess(time.monotonic(), deadline, text_of(log))
            time.sleep(0.05)
        trained = time.monotonic()
        workers = [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and self.is_worker(pid, model)]
        self.assertEqual(len(workers), 2)
        os.kill(max(workers), signal.SIGKILL)
        return trained

    @staticmethod
    def is_worker(pid, model):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().decode().split("\0")
        except OSError:
            return False
        return os.path.basename(words[0]) in ("cnnA", "trainer", "trainer-cuda") and model in words
