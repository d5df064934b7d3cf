#!/usr/bin/env python3
"""Tests of tools/replay with a trainer that is a script. tools/check runs it; tests/trainers/program/programs_test.cc has a real one."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
TOOLS = os.path.dirname(os.path.abspath(__file__))
REPLAY = os.path.join(TOOLS, "replay")

# Makes 8 steps from the newest checkpoint; says its flags in a file, and waits after each step for a while.
TRAINER = '''#!/usr/bin/env python3
import json, os, re, signal, sys, time
flags = dict(zip(sys.argv[1::1], sys.argv[2::1]))
folder = flags["--model_folder"]
with open(os.environ["SAID"], "w") as file:
    json.dump(sys.argv[1:], file)
if os.environ.get("FAILS"):
    sys.exit("no such data")
leave = []
signal.signal(signal.SIGTERM, lambda *_: leave.append(True))
begin = max([int(name[5:]) for name in os.listdir(folder) if name.startswith("step_")], default=0)
begin = 0 if os.environ.get("FORGETS") else begin
with open(os.path.join(folder, "ledger.jsonl"), "w") as ledger:
    print(json.dumps(%r), file=ledger)
    for step in range(begin, int(os.environ.get("STEPS", 8))):
        print(json.dumps({"step": step, "epoch": 0, "generation": 1, "world": 1, "ids": "", "loss": repr(1 / (step + 1)), "status": "applied"}),
              file=ledger, flush=True)
        while step + 1 == int(os.environ.get("WAITS_AT", 0)) and not leave:
            time.sleep(0.01)
        if leave:
            break
'''
HEAD = {"ledger": 1, "run": "ab", "seed": 3, "size": 64, "global_batch": 4, "micro_batch": 2, "shuffle": True}


class ReplayTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.run_folder = folder.name, os.path.join(folder.name, "run")
        self.write("trainer", TRAINER % HEAD)
        os.chmod(os.path.join(self.folder, "trainer"), 0o700)
        self.write("run/config.yaml", "# of a run\nmynet:\n  seed: 3\n")
        lines = [HEAD] + [{"step": step, "epoch": 0, "generation": 1 + step // 4, "world": 2, "ids": "", "loss": repr(1 / (step + 1)),
                           "status": "applied"} for step in range(8)]
        self.write("run/ledger.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
        for step in (3, 6):
            self.write(f"run/step_{step}/DONE", "{}")
            self.write(f"run/step_{step}/state.json", json.dumps({"progress": {"threads": 2}}))

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def replay(self, status, *flags, program=True, tool=REPLAY, **environment):
        command = [sys.executable, tool, self.run_folder, *(["--program", os.path.join(self.folder, "trainer")] if program else []), *flags]
        said = os.path.join(self.folder, "said.json")
        done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "SAID": said, **environment})
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.flags = []
        if os.path.exists(said):
            with open(said, encoding="utf-8") as file:
                self.flags = json.load(file)
        return done.stdout + done.stderr

    def test_from_the_start_with_the_runs_threads(self):
        self.assertIn("steps: 8 of 8", self.replay(0))
        self.assertEqual(self.flags[self.flags.index("--threads") + 1], "2")
        self.assertEqual(self.flags[self.flags.index("--checkpoint_steps") + 1], "3", "each checkpoint can be compared")
        self.assertEqual(self.flags[self.flags.index("--config") + 1], os.path.join(self.run_folder, "config.yaml"))

    def test_from_the_nearest_checkpoint(self):
        for start, begins, count in ((3, 3, 5), (5, 3, 5), (6, 6, 2), (7, 6, 2), (2, 0, 8)):
            with self.subTest(start):
                text = self.replay(0, "--from", str(start))
                self.assertIn(f"repeats the steps {begins} to 7", text)
                self.assertIn(f"steps: {count} of {count}", text)
                self.assertEqual("--threads" in self.flags, begins == 0, "a checkpoint has the threads itself")

    def test_it_is_asked_to_leave_after_the_last_step(self):
        self.assertIn("steps: 5 of 5", self.replay(0, "--to", "5", WAITS_AT="5"))

    def test_the_trainer_of_an_installation(self):
        tools = os.path.join(self.folder, "prefix", "share", "mtrun", "tools")
        for name in ("verify_bits.d", "verify_ledger.d"):
            shutil.copytree(os.path.join(TOOLS, name), os.path.join(tools, name), ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("replay", "help_page.py"):
            shutil.copy(os.path.join(TOOLS, name), tools)
        os.makedirs(os.path.join(self.folder, "prefix", "bin"))
        shutil.copy(os.path.join(self.folder, "trainer"), os.path.join(self.folder, "prefix", "bin", "mynet"))
        self.assertIn("steps: 8 of 8", self.replay(0, program=False, tool=os.path.join(tools, "replay")))

    def test_the_run_stays_as_it_is(self):
        before = sorted(os.path.join(*found[0].split(os.sep), name) for found in os.walk(self.run_folder) for name in found[2])
        self.replay(0, "--from", "6")
        self.assertEqual(before, sorted(os.path.join(*found[0].split(os.sep), name) for found in os.walk(self.run_folder) for name in found[2]))

    def test_a_trainer_that_ends_early(self):
        self.assertIn("it ended after step 5", self.replay(2, STEPS="6"))

    def test_what_cannot_be_repeated(self):
        self.assertIn("trainer ended with 1: no such data", self.replay(2, FAILS="1"))
        self.assertIn("did not continue from", self.replay(2, "--from", "6", FORGETS="1"))
        self.assertIn("there is no program mynet here", self.replay(2, program=False))
        self.assertIn("has the steps 0 to 7", self.replay(2, "--from", "8"))
        self.assertIn("has the steps 0 to 7", self.replay(2, "--to", "-1"))
        self.write("run/config.yaml", "")
        self.assertIn("does not name the program", self.replay(2, program=False))


if __name__ == "__main__":
    unittest.main()
