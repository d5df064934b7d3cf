"""Checkpoints that a thread writes while training continues. It needs PyTorch, but not NumPy;
tests/e2e/python_package_test.cc runs it."""
import errno
import os
import random
import resource
import signal
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

sys.modules["numpy"] = None  # PyTorch works without it

import support  # the package's path
import torch
from mtrun import ElasticSampler, Interrupted, checkpoint_folder, join
from mtrun.checkpoints import Checkpoints
from mtrun.replica import Replica
from mtrun.torch import leave_group
from replica_workers import checkpoints_in, wait

WRITE = checkpoint_folder.write
WRITES = "mtrun.checkpoint_folder.write"
KILLS = 12


class SaverCase(unittest.TestCase):
    def setUp(self):
        support.restore_signals(self)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.release = threading.Event()
        self.addCleanup(self.release.set)
        self.saving = threading.Event()

    def replica(self, job, every=1, steps=6):
        self.model = torch.nn.Linear(2, 1)
        return Replica(job, self.model, torch.optim.SGD(self.model.parameters(), lr=0.1), ElasticSampler(4 * steps, 4, 4),
                       folder=self.folder, checkpoint_steps=every)

    def loss_of(self, ids):
        return self.model(torch.ones(len(ids), 2)).mean()

    def hold_back(self, path, state):
        self.saving.set()
        if not self.release.wait(20):
            raise TimeoutError("the test did not release it")
        WRITE(path, state)

    def names(self):
        return checkpoints_in(self.folder)


class BesideTest(SaverCase):
    def test_steps_continue_while_it_writes_what_was_true_before_them(self):
        with join({}) as job, unittest.mock.patch(WRITES, self.hold_back):
            steps = self.replica(job, every=2).steps(self.loss_of)
            next(steps), next(steps)
            before = self.model.weight.detach().clone()
            next(steps)
            self.assertTrue(self.saving.wait(20))
            self.assertFalse(torch.equal(self.model.weight, before))
            self.assertEqual(self.names(), [])
            self.release.set()
            for _ in steps:
                pass
            leave_group(job)
        self.assertEqual(self.names(), ["replica_4", "replica_6"])
        state = checkpoint_folder.read(os.path.join(self.folder, "replica_4"))
        self.assertEqual(state["sampler"]["step"], 4)

    def test_the_file_has_the_weights_of_its_step(self):
        with join({}) as job:
            run, seen = self.replica(job, every=1), {}
            for _ in run.steps(self.loss_of):
                seen[run.sampler.step] = self.model.weight.detach().clone()
            leave_group(job)
        self.assertEqual(self.names(), ["replica_5", "replica_6"])
        for step in (5, 6):
            state = checkpoint_folder.read(os.path.join(self.folder, f"replica_{step}"))
            self.assertTrue(torch.equal(state["model"]["weight"], seen[step]))

    def test_the_next_one_waits_for_it(self):
        with join({}) as job, unittest.mock.patch(WRITES, self.hold_back):
            steps = self.replica(job).steps(self.loss_of)
            next(steps), next(steps)
            threading.Timer(0.2, self.release.set).start()
            began = time.monotonic()
            next(steps)
            self.assertGreater(time.monotonic() - began, 0.1)
            self.assertIn("replica_1", self.names())
            leave_group(job)

    def test_an_error_of_the_disk_ends_the_steps_after_it(self):
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        with join({}) as job, unittest.mock.patch(WRITES, side_effect=full):
            run = self.replica(job, every=2)
            with self.assertRaisesRegex(OSError, "No space left"):
                for _ in run.steps(self.loss_of):
                    if run.sampler.step == 3:
                        run._saver._thread.join()
            self.assertEqual((run.sampler.step, self.names()), (3, []))
            leave_group(job)

    def test_a_full_disk_is_named_and_not_filled_further(self):
        # The limit of a file's size stands for the disk: writes fail there, too, and Python ignores the signal.
        usual = resource.getrlimit(resource.RLIMIT_FSIZE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_FSIZE, usual)
        with join({}) as job:
            run = self.replica(job, every=0)
            next(run.steps(self.loss_of))
            before = sorted(os.listdir(self.folder))
            self.model.register_buffer("large", torch.zeros(1 << 16))
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 14, usual[1]))
            with self.assertRaisesRegex(OSError, f"File too large.*{self.folder}") as raised:
                run.save()
            self.assertEqual(raised.exception.errno, errno.EFBIG)
            self.assertEqual(sorted(os.listdir(self.folder)), before)
            leave_group(job)

    def test_a_program_that_fails_still_has_the_one_in_flight(self):
        with self.assertRaises(KeyError), join({}) as job, unittest.mock.patch(WRITES, self.hold_back):
            run = self.replica(job, every=3)
            for _ in run.steps(self.loss_of):
                if run.sampler.step == 4 and self.saving.wait(20):  # the save of step 3
                    threading.Timer(0.2, self.release.set).start()
                    raise KeyError("a fault of the program")
        leave_group(job)
        self.assertEqual(self.names(), ["replica_3"])

    def test_one_whose_generation_has_ended_is_given_up_and_made_up_for(self):
        with join({}) as job, unittest.mock.patch(WRITES, self.hold_back):
            run = self.replica(job, every=4)
            steps = run.steps(self.loss_of)
            for _ in range(5):
                next(steps)
            self.assertTrue(self.saving.wait(20))
            later = unittest.mock.Mock(wraps=job, generation="9.9")
            run._saver._job = later
            self.release.set()
            run._saver._thread.join()
            self.assertEqual(self.names(), [])
            run._saver._job = job
            next(steps)
            run._saver._thread.join()
            self.assertEqual(self.names(), ["replica_5"])
            leave_group(job)

    def test_one_is_given_up_if_its_lease_has_ended(self):
        with join({}) as job:
            run = self.replica(job)
            steps = run.steps(self.loss_of)
            next(steps)
            with unittest.mock.patch.object(job, "hold", side_effect=Interrupted("no service")):
                run._save_if_due()
                self.assertFalse(run._saver.finish())
            self.assertEqual(self.names(), [])
            leave_group(job)


class KilledTest(SaverCase):
    def test_the_newest_one_is_intact_after_a_kill_at_any_time(self):
        last = 0
        for number in range(KILLS):
            pid = os.fork()
            if pid == 0:
                self.save_for_ever()
            try:
                wait(lambda: self.newest() > last, lambda: "no checkpoint")
                time.sleep(0.05 * random.random())
            finally:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            last = self.newest()
            self.assertEqual(Checkpoints(self.folder).furthest().position.steps, last, f"kill {number} left a damaged file")

    def newest(self):
        return max((int(name[8:]) for name in self.names()), default=0)

    def save_for_ever(self):
        try:
            with join({}) as job:
                run = self.replica(job, every=1, steps=10**6)
                for _ in run.steps(self.loss_of):
                    pass
        finally:
            os._exit(1)


if __name__ == "__main__":
    unittest.main()
