"""Sums of two workers whose generation ends at any moment: no sum outlives it. It needs PyTorch, but not NumPy;
tests/e2e/python_package_test.cc runs it."""
import random
import time
import unittest

import support
from replica_workers import ReplicaCase, Worker
from support import assignment

ROUNDS = 25
SOON = 15.0  # seconds for two workers to meet again; a sum that Gloo loses waits for 600
# Sums while there is a generation, and prints how many it has been in.
PROGRAM = """import sys
sys.modules["numpy"] = None
sys.path.insert(0, sys.argv[1])
import torch
import mtrun
from mtrun.torch import finish_all, interruptible, leave_group, regroup, start

with mtrun.join() as job:
    while True:
        try:
            number = regroup(job, "gloo").number
        except mtrun.Stopped:
            break
        try:
            with interruptible(job):
                for count in range(10**9):
                    tensors = [torch.ones(1000) for _ in range(3)]  # as the buckets of a step
                    finish_all(job, [(start(tensor), tensor) for tensor in tensors])
                    if count == 2:
                        print("sums", number, flush=True)
        except mtrun.Interrupted:
            pass
    leave_group(job)
print("ended", flush=True)
"""


class LateSumsTest(ReplicaCase):
    def test_a_generation_that_ends_within_sums_is_left_at_once(self):
        values = {}
        workers = [Worker(self, "", values, program=PROGRAM) for _ in range(2)]
        for worker in workers:
            worker.await_message("ready")
        for number in range(1, ROUNDS + 1):
            values.clear()
            for rank, worker in enumerate(workers):
                worker.agent.say(assignment(number, rank=rank))
            began = time.monotonic()
            for worker in workers:
                worker.await_line(f"sums {number}")
            if number > 1:
                self.assertLess(time.monotonic() - began, SOON)
            time.sleep(0.005 * random.random())
            for worker in random.sample(workers, 2):  # the other one's connections have ended when it is notified
                worker.agent.say({"type": "dissolved", "generation": f"{number}.{number:x}", "why": "cut off", "graceful": False})
                time.sleep(0.02 * random.random())
        for worker in workers:
            worker.agent.say({"type": "stop", "why": "success", "complete": True})
        for worker in workers:
            self.assertEqual(worker.status(), 0, worker.lines)


if __name__ == "__main__":
    unittest.main()
