"""Workers that train a Replica in processes of their own, beside agents that the tests play. It needs PyTorch, but not NumPy;
tests/e2e/python_package_test.cc runs it."""
import os
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.modules["numpy"] = None  # PyTorch does without

import support
from support import Agent, assignment

SOON = 60.0  # seconds: a start of PyTorch on a loaded machine
# A worker: says "wants N" before it computes step N and goes on when it is told to, says "did N" behind it.
WORKER = """import sys
sys.modules["numpy"] = None
sys.path.insert(0, sys.argv[1])
import torch
import mtrun
from mtrun.replica import Replica

torch.manual_seed(0)
model = torch.nn.Linear(2, 1)
sampler = mtrun.ElasticSampler(40, 4, 2, epochs=1)

def loss_of(ids):
    print("wants", sampler.step, flush=True)
    sys.stdin.readline()
    return model(torch.tensor([[float(i), 1.0] for i in ids])).pow(2).mean()

with mtrun.join() as job:
    replica = Replica(job, model, torch.optim.SGD(model.parameters(), lr=1e-4), sampler, folder=sys.argv[2])
    for taken in replica.steps(loss_of):
        print("did", taken.step, flush=True)
print("ended", flush=True)
"""


class Worker:
    """One process, and its agent. `values`: the key-value space, shared by all of a generation."""

    def __init__(self, case, folder, values):
        self.agent, self.values, self.heard, self.lines = Agent(), values, [], []
        case.addCleanup(self.agent.close)
        environment = {**os.environ, **self.agent.environment(), "PYTHONDONTWRITEBYTECODE": "1",
                       "PYTHONWARNINGS": "ignore::UserWarning"}  # of PyTorch, that there is no NumPy
        self.process = subprocess.Popen([sys.executable, "-c", WORKER, os.path.join(support.ROOT, "python"), folder],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        case.addCleanup(self.close)
        self.threads = [threading.Thread(target=self._serve, daemon=True), threading.Thread(target=self._read, daemon=True)]
        for thread in self.threads:
            thread.start()

    def close(self):
        self.process.kill()
        self.process.wait()
        for thread in self.threads:
            thread.join()
        self.process.stdin.close()
        self.process.stdout.close()

    def tell(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def await_line(self, line):
        self._await(lambda: line in self.lines, f"'{line}'")

    def await_message(self, kind, count=1):
        self._await(lambda: sum(said["type"] == kind for said in self.heard) >= count, kind)

    def _await(self, holds, what):
        wait(lambda: holds() or self.process.poll() is not None, lambda: f"no {what} but {self.lines}, {self.heard}")
        if not holds():
            raise AssertionError(f"it has ended with {self.process.returncode} without {what}: {self.lines}")

    def status(self):
        return self.process.wait(SOON)

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line.strip())

    def _serve(self):
        self.agent.accept(None)
        while said := self.agent.heard():
            if said["type"] == "store_set":
                self.values[said["key"]] = said["value"]
            elif said["type"] == "store_wait":
                wait(lambda: all(key in self.values for key in said["keys"]), lambda: f"no {said['keys']}")
                self.agent.say({"type": "store_values", "id": said["id"],
                                "values": {key: self.values[key] for key in said["keys"]}})
            self.heard.append(said)


def wait(holds, why):
    deadline = time.monotonic() + SOON
    while not holds():
        if time.monotonic() >= deadline:
            raise TimeoutError(why())
        time.sleep(0.005)


DRAIN = {"type": "drain", "deadline_seconds": 30, "why": "asked"}


class StopTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, values = folder.name, {}
        self.workers = [Worker(self, folder.name, values) for _ in range(2)]
        for rank, worker in enumerate(self.workers):
            worker.await_message("ready")
            worker.agent.say(assignment(1, rank=rank))
        for worker in self.workers:
            worker.await_line("wants 0")

    def checkpoints(self):
        return sorted(name for name in os.listdir(self.folder) if name.endswith(".pt"))

    def verify(self):
        verify = [sys.executable, os.path.join(support.ROOT, "tools", "verify_ledger"), self.folder, "--partial"]
        done = subprocess.run(verify, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def drain_behind_the_vote_of(self, late):
        """One is in the step's sums, and has said that it stays, when both are asked to go."""
        early, late = self.workers[1 - late], self.workers[late]
        late.tell()
        time.sleep(0.5)  # until it has voted: it waits in the sums for the other one's
        for worker in self.workers:
            worker.agent.say(DRAIN)
        time.sleep(0.2)
        early.tell()
        return early, late

    def test_of_two_that_are_asked_to_go_the_one_that_had_voted_saves(self):
        for late in (1, 0):
            with self.subTest(late=late):
                if late == 0:
                    self.setUp()
                left, saved = self.drain_behind_the_vote_of(late)
                self.assertEqual(left.status(), 0)
                self.assertEqual(saved.status(), 128 + 15)
                self.assertEqual(self.checkpoints(), ["replica_1.pt"])
                self.verify()

    def test_when_both_have_voted_all_is_saved_once(self):
        for worker in self.workers:
            worker.agent.say(DRAIN)
        time.sleep(0.2)
        for worker in self.workers:
            worker.tell()
        self.assertEqual([worker.status() for worker in self.workers], [143, 143])
        self.assertEqual(self.checkpoints(), ["replica_1.pt"])
        self.verify()

    def test_who_waits_behind_an_aborted_step_saves_what_it_holds(self):
        for worker in self.workers:
            worker.tell()
        for worker in self.workers:
            worker.await_line("wants 1")
        first, second = self.workers
        first.process.kill()
        second.tell()
        second.agent.say({"type": "dissolved", "generation": "1.1", "why": "rank 0 was killed", "graceful": False}, DRAIN)
        self.assertEqual(second.status(), 143)
        self.assertEqual(self.checkpoints(), ["replica_1.pt"])
        self.verify()

    def test_what_others_went_on_with_is_not_saved_over(self):
        for worker in self.workers:
            worker.tell()
        for worker in self.workers:
            worker.await_line("wants 1")
        first, second = self.workers
        second.agent.say({"type": "dissolved", "generation": "1.1", "why": "rank 1 is cut off", "graceful": False})
        first.agent.say({"type": "dissolved", "generation": "1.1", "why": "rank 1 is cut off", "graceful": False},
                        assignment(2, world_size=1))
        second.tell()
        first.tell()  # the step that is given up
        for _ in range(2):
            first.tell()  # micro-batches of the next one
        first.await_line("did 1")
        second.agent.say(DRAIN)
        self.assertEqual(second.status(), 143)
        self.assertEqual(self.checkpoints(), [])
        first.process.kill()
        self.verify()


if __name__ == "__main__":
    unittest.main()
