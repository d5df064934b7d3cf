"""Losses, skips and weights of a whole training script under mtrun with any number of workers, also if one is killed, are
those of one worker. The first argument is mtrun's path. It needs PyTorch; tests/e2e/python_package_test.cc runs it."""
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

import support

MTRUN = sys.argv.pop(1) if len(sys.argv) > 1 and os.path.isfile(sys.argv[1]) else None
PROGRAM = os.path.join(support.ROOT, "tests", "python", "training_program.py")
LONG = 500.0  # seconds: several starts of PyTorch on a loaded machine


class UnderMtrunTest(unittest.TestCase):
    def setUp(self):
        if MTRUN is None:
            self.skipTest("give the path of mtrun")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def run_one(self, workers, *flags, kill_at=None):
        """Returns the printed lines of a run without their prefixes; kills rank 1 after that step."""
        run = os.path.join(self.folder, f"run_{workers}_{kill_at}")
        launcher = [MTRUN, "--standalone", "--nproc_per_node", str(workers), "--max_restarts", "3"] if workers else [sys.executable]
        environment = {**os.environ, "PYTHONPATH": os.path.join(support.ROOT, "python"), "PYTHON_EXEC": sys.executable,
                       "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1", "XDG_STATE_HOME": self.folder}
        program = subprocess.Popen([*launcher, PROGRAM, "--folder", run, *flags], env=environment, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.addCleanup(program.stdout.close)
        timer = threading.Timer(LONG, program.kill)
        timer.start()
        lines, victim = [], None
        for line in program.stdout:
            lines.append(re.sub(r"^\[default\d+\]:", "", line.strip()))
            if found := re.fullmatch(r"generation \d+: rank 1 of \d+ is pid (\d+)", lines[-1]):
                victim = victim or int(found[1])
            if kill_at is not None and lines[-1].startswith(f"step {kill_at} ") and victim:
                os.kill(victim, signal.SIGKILL)
                kill_at, lines = None, [*lines, "killed"]
        timer.cancel()
        self.assertEqual(program.wait(), 0, "\n".join(lines))
        verify = subprocess.run([sys.executable, os.path.join(support.ROOT, "tools", "verify_ledger"), run], capture_output=True, text=True)
        self.assertEqual(verify.returncode, 0, verify.stdout + verify.stderr)
        return lines

    def assert_equal(self, got, wanted, digits):
        """Compares the numbers of the lines of steps, of evaluations and of the final weights."""
        def told(lines):
            found = [line.split() for line in lines if re.match(r"(step|eval|final) ", line)]
            return {" ".join(words[:2]) if words[0] != "final" else "final": words[1:] for words in found}

        got, wanted = told(got), told(wanted)
        self.assertEqual(got.keys(), wanted.keys())
        self.assertGreaterEqual(len(wanted), 16)
        for name, values in wanted.items():
            for mine, its in zip(got[name], values, strict=True):
                self.assertTrue(mine == its or abs(float(mine) - float(its)) <= digits * max(1, abs(float(its))), f"{name}: {mine} {its}")

    def test_results_do_not_depend_on_workers_or_kills(self):
        alone = self.run_one(0)
        self.assert_equal(self.run_one(2), alone, 1e-12)
        killed = self.run_one(3, "--step_seconds", "0.5", kill_at=4)
        self.assertIn("killed", killed)
        self.assertTrue(any(line.startswith("generation 2: ") for line in killed), killed)
        self.assert_equal(killed, alone, 1e-12)

    def test_all_skip_the_same_steps(self):
        alone = self.run_one(0, "--scaler")
        self.assertTrue(any(re.match(r"step 1 .* 1$", line) for line in alone), alone)
        self.assert_equal(self.run_one(2, "--scaler"), alone, 1e-4)


if __name__ == "__main__":
    unittest.main()
