"""A frozen worker or an older disk never rewinds a run: the furthest state that any member holds or can read counts. It needs
PyTorch, but not NumPy; tests/e2e/python_package_test.cc runs it."""
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import unittest

sys.modules["numpy"] = None  # PyTorch works without it

import support  # the package's path
from ledger_walk import check_walk, walk
from mtrun import ElasticSampler, checkpoint_folder
from replica_workers import ReplicaCase, Worker, checkpoints_in, wait
from support import assignment, lease_page, renew_lease

EVERY = 5            # steps between checkpoints
FROZEN, DIED = 8, 21  # step in which the first worker is frozen; steps after which the second dies
NODES = [{"host": host, "address": "127.0.0.1", "first_rank": rank, "workers": 1} for rank, host in enumerate(("a", "b"))]


class BranchCase(ReplicaCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root, self.values = folder.name, {}

    def folders(self, shared):
        return [os.path.join(self.root, "run" if shared else name) for name in ("a", "b")]

    def worker(self, folder, lease=None):
        return Worker(self, folder, self.values, lease=lease, variables={"CHECKPOINT_STEPS": str(EVERY), "EPOCHS": "10"})

    def names(self, folder):
        return checkpoints_in(folder)

    def await_names(self, folder, wanted):
        """Waits until these are the checkpoints: a thread writes them beside the steps."""
        with contextlib.suppress(TimeoutError):
            wait(lambda: self.names(folder) == wanted, lambda: "")
        self.assertEqual(self.names(folder), wanted)

    def enter(self, number, *workers, ended=None):
        """Forms the generation of this number; `ended`: members of the previous one."""
        self.values.clear()
        for rank, worker in enumerate(workers):
            worker.agent.say(*([{"type": "dissolved", "generation": f"{ended}.{ended:x}", "why": "cut off", "graceful": False}]
                               if ended else []),
                             assignment(number, rank=rank, world_size=len(workers), local_world_size=1, local_rank=0,
                                        peers=NODES[:len(workers)]))

    def join_to(self, alone, number, *workers):
        """Adds a worker to one that runs alone in generation `number` - 1."""
        self.values.clear()
        ended = f"{number - 1}.{number - 1:x}"
        alone.agent.say({"type": "dissolved", "generation": ended, "why": "a node joins", "graceful": False})
        alone.tell_to_give_up(2)
        for rank, worker in enumerate(workers):
            worker.agent.say(assignment(number, rank=rank, local_world_size=1, local_rank=0, peers=NODES))

    def until(self, steps, *workers, begin=0):
        for step in range(begin, steps):
            for worker in workers:
                worker.tell(2 if len(workers) == 1 else 1)
            for worker in workers:
                worker.await_line(f"did {step}")

    def started(self, *folders, lease=None):
        workers = [self.worker(folder, lease) for folder in folders]
        for worker in workers:
            worker.await_message("ready")
        return workers

    def freeze_and_continue(self, shared, lease=None):
        """Freezes the first worker; the second continues alone, saves and is killed. `lease`: of the first one's node."""
        folders = self.folders(shared)
        frozen, other = self.started(folders[0], lease=lease) + self.started(folders[1])
        self.enter(1, frozen, other)
        self.until(FROZEN, frozen, other)
        for worker in (frozen, other):
            worker.await_line(f"wants {FROZEN}")
        self.await_names(folders[0], ["replica_5"])
        frozen.process.send_signal(signal.SIGSTOP)
        other.tell()
        self.enter(2, other, ended=1)
        self.until(DIED, other, begin=FROZEN)
        self.await_names(folders[1], ["replica_15", "replica_20"])
        other.process.kill()
        other.process.wait()
        return frozen, folders

    def thaw(self, frozen):
        frozen.process.send_signal(signal.SIGCONT)
        frozen.tell()  # the step in which it was frozen

    def said(self, worker, *words):
        lines = [line for line in worker.lines if all(word in line for word in words)]
        self.assertEqual(len(lines), 1, f"{words} in {worker.lines}")

    def whole(self, steps, *folders):
        """Checks the ledgers with the test's own walk and with the project's verifier."""
        written = [folder for folder in dict.fromkeys(folders) if os.path.exists(os.path.join(folder, "ledger.jsonl"))]
        verify = [sys.executable, os.path.join(support.ROOT, "tools", "verify_ledger"), *written, "--partial"]
        done = subprocess.run(verify, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return check_walk(self, ElasticSampler(40, 4, 2, epochs=10), steps, *written)

    def steps_in(self, path):
        return checkpoint_folder.peek(path)["sampler"]["step"]


class FrozenTest(BranchCase):
    def test_it_continues_from_what_the_others_saved_in_the_shared_folder(self):
        frozen, (folder, _) = self.freeze_and_continue(shared=True)
        self.await_names(folder, ["replica_15", "replica_20"])
        self.thaw(frozen)
        self.enter(3, frozen, ended=1)
        frozen.await_line("wants 20")
        self.said(frozen, f"step {FROZEN} (generation 1)", "step 20 (generation 2)", "discarding")
        self.until(26, frozen, begin=20)
        self.await_names(folder, ["replica_20", "replica_25"])
        self.whole(26, folder)

    def test_the_newest_one_that_is_intact_counts(self):
        frozen, (folder, _) = self.freeze_and_continue(shared=True)
        with open(os.path.join(folder, "replica_20", "model.safetensors"), "r+b") as file:
            file.truncate(100)
        self.thaw(frozen)
        self.enter(3, frozen, ended=1)
        frozen.await_line("wants 15")
        self.until(16, frozen, begin=15)
        self.whole(16, folder)

    def test_without_an_intact_one_the_frozen_state_counts_and_nothing_is_deleted(self):
        frozen, (folder, _) = self.freeze_and_continue(shared=True)
        for step in (15, 20):
            with open(os.path.join(folder, f"replica_{step}", "model.safetensors"), "r+b") as file:
                file.truncate(100)
        self.thaw(frozen)
        self.enter(3, frozen, ended=1)
        self.until(11, frozen, begin=FROZEN)
        self.await_names(folder, ["replica_10"])
        self.assertEqual(sorted(name for name in os.listdir(folder) if "unreadable" in name),
                         ["replica_15.unreadable", "replica_20.unreadable"])
        counted = self.whole(11, folder)
        self.assertEqual([counted[step]["generation"] for step in (FROZEN - 1, FROZEN)], [1, walk([folder])[10]["generation"]])

    def test_a_fresh_process_brings_its_node_s_checkpoint(self):
        for rank in (0, 1):
            with self.subTest(rank=rank), tempfile.TemporaryDirectory() as self.root:
                frozen, folders = self.freeze_and_continue(shared=False)
                fresh, = self.started(folders[1])
                self.thaw(frozen)
                workers = [frozen, fresh][::1 - 2 * rank]
                self.values.clear()
                for place, worker in enumerate(workers):
                    worker.agent.say(*([{"type": "dissolved", "generation": "1.1", "why": "cut off", "graceful": False}]
                                       if worker is frozen else []),
                                     assignment(3, rank=place, local_world_size=1, local_rank=0, peers=NODES))
                for worker in workers:
                    worker.await_line("wants 20")
                self.said(frozen, f"step {FROZEN} (generation 1)", "step 20 (generation 2)", "discarding")
                self.until(26, *workers, begin=20)
                wait(lambda: "replica_25" in self.names(folders[rank]), lambda: self.names(folders[rank]))
                self.assertIn("replica_20", self.names(folders[1]))
                self.whole(26, *folders)
                if rank == 0:
                    self.whole(26, folders[0])  # it got the lines that its own ledger lacked
                for worker in workers:
                    worker.close()

    def test_a_disk_that_joins_brings_the_run_forward(self):
        """It takes a step alone while the other process still starts."""
        frozen, folders = self.freeze_and_continue(shared=False)
        fresh, = self.started(folders[1])
        self.thaw(frozen)
        self.enter(3, frozen, ended=1)
        self.until(12, frozen, begin=FROZEN)
        frozen.await_line("wants 12")
        self.await_names(folders[0], ["replica_10", "replica_5"])  # a save that still waits ends with its generation
        self.join_to(frozen, 4, fresh, frozen)
        for worker in (fresh, frozen):
            worker.await_line("wants 20")
        self.said(frozen, "discarding the state of rank 1, step 12 (generation 3)", "continues from step 20 (generation 2)")
        self.until(26, fresh, frozen, begin=20)
        self.await_names(folders[1], ["replica_20", "replica_25"])
        counted = self.whole(26, *folders)
        self.assertEqual([counted[step]["generation"] for step in (7, 8, 19)], [1, 2, 2])
        self.keeps_its_branch_aside(fresh, frozen, folders)

    def keeps_its_branch_aside(self, other, frozen, folders):
        """The frozen worker continues alone; its own checkpoint of step 10 is not an ancestor."""
        other.process.kill()
        frozen.tell()
        self.enter(5, frozen, ended=4)
        self.until(31, frozen, begin=26)
        frozen.await_line("wants 31")
        self.await_names(folders[0], ["replica_10", "replica_30"])
        self.until(36, frozen, begin=31)
        frozen.await_line("wants 36")
        self.await_names(folders[0], ["branch_3_replica_10", "replica_30", "replica_35"])
        self.assertEqual(self.steps_in(os.path.join(folders[0], "branch_3_replica_10")), 10)
        self.said(frozen, "replica_10 is from another branch", "step 10 (generation 3)", "branch_3_replica_10")
        self.whole(36, *folders)

    def test_after_its_lease_has_lapsed_the_numbers_leave_a_gap(self):
        for ends, leaves in ((1, True), (2**62, False)):
            with self.subTest(leaves=leaves), tempfile.TemporaryDirectory() as self.root:
                lease = lease_page(self, (1, 2**62), (3, 2**62))
                frozen, folders = self.freeze_and_continue(shared=False, lease=lease)
                renew_lease(lease, ends)
                self.thaw(frozen)
                self.enter(3, frozen, ended=1)
                self.until(9, frozen, begin=FROZEN)
                number = walk(folders[:1])[FROZEN]["generation"]
                self.assertGreater(number, 3) if leaves else self.assertEqual(number, 3)
                self.whole(9, folders[0])
                frozen.close()


class ColdStartTest(BranchCase):
    def disks(self):
        """Makes the disks: the first node's at step 5 in generation 1, the second node's at step 20 in generation 2."""
        frozen, folders = self.freeze_and_continue(shared=False)
        frozen.close()
        self.await_names(folders[0], ["replica_5"])
        return folders

    def test_both_meet_before_a_step(self):
        for order in (1, -1):
            with self.subTest(order=order), tempfile.TemporaryDirectory() as self.root:
                folders = self.disks()
                workers = self.started(*folders[::order])
                self.enter(1, *workers)
                for worker in workers:
                    worker.await_line("wants 20")
                self.until(21, *workers, begin=20)
                self.whole(21, *folders)
                self.assertGreater(walk(folders)[20]["generation"], 3)
                for worker in workers:
                    worker.close()

    def test_the_older_disk_begins_alone(self):
        folders = self.disks()
        older, = self.started(folders[0])
        self.enter(1, older)
        self.until(7, older, begin=5)
        older.await_line("wants 7")
        newer, = self.started(folders[1])
        self.join_to(older, 2, newer, older)
        for worker in (newer, older):
            worker.await_line("wants 20")
        self.said(older, "discarding the state of rank 1, step 7 ", "the run continues from step 20 (generation 2)")
        self.until(26, newer, older, begin=20)
        self.await_names(folders[1], ["replica_20", "replica_25"])
        self.whole(26, *folders)

    def test_the_newer_disk_begins_alone(self):
        folders = self.disks()
        newer, = self.started(folders[1])
        self.enter(1, newer)
        self.until(22, newer, begin=20)
        newer.await_line("wants 22")
        older, = self.started(folders[0])
        self.join_to(newer, 2, older, newer)
        older.await_line("wants 22")
        self.until(26, older, newer, begin=22)
        self.await_names(folders[0], ["replica_25", "replica_5"])
        self.whole(26, *folders)


if __name__ == "__main__":
    unittest.main()
