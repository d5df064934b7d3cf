"""A Replica keeps its state if its workers are stopped at any time. It needs PyTorch, but not NumPy;
tests/e2e/python_package_test.cc runs it."""
import enum
import errno
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

sys.modules["numpy"] = None  # PyTorch works without it

import support  # the package's path
import torch
from mtrun import ElasticSampler, Interrupted, checkpoint_folder, join
from mtrun.checkpoints import Checkpoints
from mtrun.handover import give
from mtrun.ledger import Ledger
from mtrun.position import Position
from mtrun.replica import EXIT_DIFFERS, Replica
from mtrun.torch import leave_group
from replica_workers import DRAIN, SOON, WORKER, ReplicaCase, Worker, checkpoints_in, wait
from support import assignment, lease_page, renew_lease


class StopTest(ReplicaCase):
    def setUp(self):
        self.start()

    def drain_behind_the_vote_of(self, late):
        """Drains both while one is in the step's sums and has voted to stay."""
        early, late = self.workers[1 - late], self.workers[late]
        late.tell()
        time.sleep(0.5)  # until it has voted: it waits in the sums for the other one
        for worker in self.workers:
            worker.agent.say(DRAIN)
        time.sleep(0.2)
        early.tell()
        return early, late

    def test_one_of_two_drained_workers_saves_if_it_had_voted(self):
        for late in (1, 0):
            with self.subTest(late=late):
                if late == 0:
                    self.start()
                left, saved = self.drain_behind_the_vote_of(late)
                self.assertEqual(left.status(), 0)
                self.assertEqual(saved.status(), 128 + 15)
                self.assertEqual(self.checkpoints(), ["replica_1"])
                self.verify()

    def test_when_both_have_voted_all_is_saved_once(self):
        for worker in self.workers:
            worker.agent.say(DRAIN)
        time.sleep(0.2)
        for worker in self.workers:
            worker.tell()
        self.assertEqual([worker.status() for worker in self.workers], [143, 143])
        self.assertEqual(self.checkpoints(), ["replica_1"])
        self.verify()

    def test_checkpoint_of_members_that_continued_is_not_overwritten(self):
        for worker in self.workers:
            worker.tell()
        for worker in self.workers:
            worker.await_line("wants 1")
        first, second = self.workers
        second.agent.say({"type": "dissolved", "generation": "1.1", "why": "rank 1 is cut off", "graceful": False})
        first.agent.say({"type": "dissolved", "generation": "1.1", "why": "rank 1 is cut off", "graceful": False},
                        assignment(2, world_size=1))
        second.tell()
        first.tell()  # the abandoned step
        for _ in range(2):
            first.tell()  # micro-batches of the next one
        first.await_line("did 1")
        second.agent.say(DRAIN)
        self.assertEqual(second.status(), 143)
        self.assertEqual(self.checkpoints(), [])
        first.process.kill()
        self.verify()


class OtherLauncherTest(ReplicaCase):
    """Workers started by torchrun, srun or by hand: they are not replaced, so none may look as if it had finished."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.start_in(self.folder, self.folder)
        self.step(0)
        for worker in self.workers:
            worker.await_line("wants 1")

    def start_in(self, *folders):
        with socket.create_server(("127.0.0.1", 0)) as free:
            place = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
        self.workers = [Worker(self, folder, {}, alone=True, variables={**place, "RANK": str(rank), "LOCAL_RANK": str(rank)})
                        for rank, folder in enumerate(folders)]

    def test_all_save_and_stop_when_one_is_asked_to_go(self):
        self.workers[1].process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        for worker in self.workers:
            worker.tell()
        self.assertEqual([worker.status() for worker in self.workers], [143, 143])
        self.assertEqual(self.checkpoints(), ["replica_2"])
        self.verify()

    def test_worker_with_an_unreadable_checkpoint_receives_the_state_of_another(self):
        self.test_all_save_and_stop_when_one_is_asked_to_go()
        with tempfile.TemporaryDirectory() as refuses:
            os.symlink("replica_7", os.path.join(refuses, "replica_7"))
            self.start_in(refuses, self.folder)
            for worker in self.workers:
                worker.await_line("wants 2")
            for worker in self.workers:
                worker.close()
            self.start_in(refuses, refuses)
            self.assertEqual([worker.status() for worker in self.workers], [1, 1])
            self.assertIn("Too many levels of symbolic links", "".join(self.workers[0].lines))

    def test_worker_that_loses_its_peer_saves_and_fails(self):
        self.workers[1].process.kill()
        self.workers[0].tell()
        self.assertEqual(self.workers[0].status(), 1)
        self.assertIn("mtrun.job.Interrupted", "".join(self.workers[0].lines))
        self.assertEqual(self.checkpoints(), ["replica_1"])
        self.verify()


class WaitTest(ReplicaCase):
    """A worker waits for the next generation after an aborted step."""

    def lose_the_first(self, *then):
        """Loses the first worker in step 1, which is abandoned; the other one is notified of it, and of `then`."""
        for worker in self.workers:
            worker.await_line("wants 1")
        first, second = self.workers
        first.process.kill()
        second.tell()
        second.agent.say({"type": "dissolved", "generation": "1.1", "why": "rank 0 was killed", "graceful": False}, *then)
        return second

    def test_it_saves_what_it_holds(self):
        self.start()
        self.step(0)
        self.assertEqual(self.lose_the_first(DRAIN).status(), 143)
        self.assertEqual(self.checkpoints(), ["replica_1"])
        self.verify()

    def test_drained_worker_saves_on_a_file_system_without_locks(self):
        self.start("unlocked")
        self.step(0)
        second = self.lose_the_first(DRAIN)
        self.assertEqual(second.status(), 143)
        self.assertEqual(self.checkpoints(), ["replica_1"])
        said = f"mtrun: saving the last state without a lock: lock {self.folder}/.lock: No locks available"
        self.assertEqual(second.lines.count(said), 1, second.lines)
        self.verify()

    def test_worker_of_a_completed_job_saves_nothing_and_waits_for_no_service(self):
        lease = lease_page(self, (1, 2**62))
        self.start(lease=lease)
        self.step(0)
        for worker in self.workers:
            worker.await_line("wants 1")
        renew_lease(lease, 1)
        second = self.lose_the_first({"type": "stop", "why": "success", "complete": True})
        self.assertEqual(second.status(), 0)
        self.assertEqual(self.checkpoints(), [])
        self.assertEqual([line for line in second.lines if "could not be saved" in line], [])


class RestartTest(ReplicaCase):
    def alone(self, folder):
        return Worker(self, folder, {}, alone=True)

    def run_of(self, folder):
        return Ledger(folder, ElasticSampler(40, 4, 2)).run()

    def two_steps_and_death(self, folder):
        worker = self.alone(folder)
        worker.tell(4)
        worker.await_line("did 1")
        worker.process.kill()

    def test_a_run_of_which_no_checkpoint_is_left_begins_again_in_its_ledger(self):
        with tempfile.TemporaryDirectory() as self.folder:
            self.two_steps_and_death(self.folder)
            run = self.run_of(self.folder)
            again = self.alone(self.folder)
            again.tell(6)
            again.await_line("did 2")
            self.assertEqual(self.run_of(self.folder), run)
            self.verify()

    def test_it_is_the_run_of_whichever_node_has_a_ledger(self):
        with tempfile.TemporaryDirectory() as self.folder:
            second = os.path.join(self.folder, "second")
            self.two_steps_and_death(second)
            values = {}
            workers = [Worker(self, folder, values) for folder in (self.folder, second)]
            for rank, worker in enumerate(workers):
                worker.await_message("ready")
                worker.agent.say(assignment(1, rank=rank))
                worker.tell()
            for worker in workers:
                worker.await_line("did 0")
            self.assertEqual(self.run_of(self.folder), self.run_of(second))

    def test_further_checkpoint_of_an_earlier_generation_does_not_displace_the_new(self):
        support.restore_signals(self)
        with tempfile.TemporaryDirectory() as folder:
            for step in (8, 9):
                with open(os.path.join(folder, f"replica_{step}"), "wb"):
                    pass  # its node was away while others continued
            model = torch.nn.Linear(1, 1)
            with join({}) as job:
                replica = Replica(job, model, torch.optim.SGD(model.parameters(), lr=0.1), ElasticSampler(16, 4, 4, 1),
                                  folder=folder, checkpoint_steps=1)
                for _ in replica.steps(lambda ids: model(torch.ones(len(ids), 1)).mean()):
                    pass
                leave_group(job)
            self.assertEqual(checkpoints_in(folder), ["replica_3", "replica_4"])

    def test_a_schedule_is_saved_with_the_step_that_it_follows(self):
        support.restore_signals(self)
        with tempfile.TemporaryDirectory() as self.folder:
            for epochs in (1, 2):
                model = torch.nn.Linear(1, 1)
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
                with join({}) as job:
                    replica = Replica(job, model, optimizer, ElasticSampler(8, 4, 4, epochs), folder=self.folder,
                                      checkpoint_steps=1, more={"schedule": schedule})
                    for taken in replica.steps(lambda ids: model(torch.ones(len(ids), 1)).mean()):
                        schedule.step()
                        self.assertEqual(schedule.last_epoch, taken.step + 1)
                    leave_group(job)
            self.assertEqual(taken.step, 3)


class ProgressTest(ReplicaCase):
    def test_it_counts_the_samples_that_there_are(self):
        support.restore_signals(self)
        model = torch.nn.Linear(1, 1)
        with join({}) as job, unittest.mock.patch.object(job, "progress") as told:
            replica = Replica(job, model, torch.optim.SGD(model.parameters(), lr=0.1), ElasticSampler(10, 4, 4, 2))
            for _ in replica.steps(lambda ids: model(torch.ones(len(ids), 1)).mean()):
                pass
            leave_group(job)
        self.assertEqual([call.args for call in told.call_args_list],
                         [(0, 1, 4), (0, 2, 8), (0, 3, 10), (1, 4, 14), (1, 5, 18), (1, 6, 20)])


def state(step, lineage, run="0" * 16):
    """Returns what a Replica saves, without tensors."""
    return {"run": run, "generation": lineage[-1][0], "lineage": lineage, "sampler": {"step": step}}


class Counter:
    """An object of the program in `more`."""
    def __init__(self, value=0):
        self.value = value

    def state_dict(self):
        return {"value": self.value}

    def load_state_dict(self, state):
        self.value = state["value"]


class Colour(enum.Enum):
    """A type that torch.load rejects with weights_only."""
    RED = 1


class CheckpointTest(ReplicaCase):
    """Files from which a run cannot continue, within this process."""
    def setUp(self):
        support.restore_signals(self)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.checkpoint_steps = folder.name, 1

    def replica(self, job, width=1, size=8, folder=None, **more):
        self.model = torch.nn.Linear(2, width)
        self.sampler = ElasticSampler(size, 4, 4, 1)
        return Replica(job, self.model, torch.optim.SGD(self.model.parameters(), lr=0.1), self.sampler,
                       folder=folder or self.folder, checkpoint_steps=self.checkpoint_steps, more=more)

    def train(self, **program):
        """Returns the numbers of the steps that this start made."""
        with join({}) as job:
            taken = [taken.step for taken in self.replica(job, **program).steps(
                lambda ids: self.model(torch.ones(len(ids), 2)).mean())]
            leave_group(job)
        return taken

    def path(self, step):
        return os.path.join(self.folder, f"replica_{step}")

    def test_one_that_does_not_fit_ends_the_start(self):
        self.assertEqual(self.train(counter=Counter()), [0, 1])
        for program, why in (({"width": 3}, "size mismatch"), ({"schedule": Counter()}, "no 'schedule'"),
                             ({"size": 40}, "another order of samples")):
            with self.subTest(why=why), join({}) as job, self.assertRaisesRegex(
                    ValueError, f"^{self.path(2)} is a checkpoint of another model or program .*{why}.*: use another folder"):
                self.replica(job, **program)
            self.assertEqual(self.sampler.step, 0)
        self.assertEqual(self.checkpoints(), ["replica_1", "replica_2"])

    def test_its_process_fails_and_has_trained_nothing(self):
        program = [sys.executable, "-c", WORKER, os.path.join(support.ROOT, "python"), self.folder]
        norm = subprocess.run([*program, "norm"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=SOON)
        self.assertEqual(norm.returncode, 0)
        wide = subprocess.run([*program, "wide"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SOON)
        self.assertNotIn(wide.returncode, (0, EXIT_DIFFERS))
        self.assertIn(f"{self.path(10)} is a checkpoint of another model or program", wide.stderr)
        self.assertEqual(wide.stdout, "")

    def test_checkpoint_before_a_damaged_one_is_loaded(self):
        self.train(size=36)
        for name in checkpoint_folder.FILES:
            path = os.path.join(self.path(9), name)
            with open(path, "rb") as file:
                whole = file.read()
            flipped = whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:]
            changed = () if name == checkpoint_folder.DONE else (whole + b" ", flipped)  # of DONE there is no digest
            for damaged in (bytes(100), b"", b"abc", whole[:-9], *changed, None):
                with self.subTest(name=name, damaged=damaged and damaged[:10]), join({}) as job:
                    os.remove(path)
                    if damaged is not None:
                        self.put(path, damaged)
                    with unittest.mock.patch("sys.stderr", io.StringIO()) as said:
                        self.replica(job, size=36)
                    self.assertEqual(self.sampler.step, 8)
                    self.assertIn(f"{self.path(9)} cannot be read", said.getvalue())
                self.put(path, whole)
        with join({}) as job:
            self.replica(job, size=36)
        self.assertEqual(self.sampler.step, 9)

    def put(self, path, data):
        with open(path, "wb") as file:
            file.write(data)

    def damage(self, *steps):
        for step in steps:
            shutil.rmtree(self.path(step), ignore_errors=True)
            with open(self.path(step), "w", encoding="ascii") as file:
                file.write(f"was {step}")

    def assert_kept(self, *steps):
        for step in steps:
            with open(self.path(step) + ".unreadable", encoding="ascii") as file:
                self.assertEqual(file.read(), f"was {step}")

    def test_run_starts_again_without_a_readable_checkpoint_and_keeps_all(self):
        for checkpoint_steps in (1, 0):
            with self.subTest(checkpoint_steps=checkpoint_steps), tempfile.TemporaryDirectory() as self.folder:
                self.checkpoint_steps = checkpoint_steps
                self.assertEqual(self.train(), [0, 1])
                damaged = (1, 2) if checkpoint_steps else (2,)
                self.damage(*damaged)
                with unittest.mock.patch("sys.stderr", io.StringIO()) as said:
                    self.assertEqual(self.train(), [0, 1])
                self.assertIn(f"no checkpoint in {self.folder} can be read: the run starts over", said.getvalue())
                self.assert_kept(*damaged)
                self.assertEqual(self.train(), [])

    def test_run_does_not_start_again_if_the_disk_has_read_errors(self):
        self.assertEqual(self.train(), [0, 1])
        before = self.checkpoints()
        with join({}) as job, unittest.mock.patch("sys.stderr", io.StringIO()) as said, \
                unittest.mock.patch("mtrun.checkpoint_folder.peek", side_effect=OSError(errno.EIO, os.strerror(errno.EIO), self.path(2))):
            replica = self.replica(job)
            with self.assertRaisesRegex(OSError, "Input/output error"):
                next(replica.steps(None))
            leave_group(job)
        self.assertIn(f"{self.path(2)} cannot be read", said.getvalue())
        self.assertEqual(self.checkpoints(), before)
        self.assertEqual(self.train(), [])

    def test_leaving_worker_saves_its_state_over_a_damaged_checkpoint(self):
        self.train(size=36)
        self.damage(9)
        with join({}) as job, unittest.mock.patch("sys.stderr", io.StringIO()):
            replica = self.replica(job, size=36)
            self.sampler.advance()
            replica._save_unless_saved()
        self.assert_kept(9)
        self.assertEqual(self.train(size=36), [])

    def test_leaving_worker_saves_unless_a_later_generation_is_further(self):
        for line, saves in (({"step": 9, "generation": 2}, False), ({"rewind": 7, "generation": 2, "of": 1}, True)):
            with self.subTest(line=line), tempfile.TemporaryDirectory() as self.folder, join({}) as job:
                self.train(size=36)
                shutil.rmtree(self.path(9))
                with open(os.path.join(self.folder, "ledger.jsonl"), "a", encoding="utf-8") as ledger:
                    ledger.write(json.dumps(line) + "\n")
                replica = self.replica(job, size=36)
                self.sampler.advance()
                replica._save_unless_saved()
                self.assertEqual(os.path.exists(self.path(9)), saves)

    def test_the_next_writer_keeps_what_the_one_before_has_kept_and_saved(self):
        self.damage(1, 2)
        with unittest.mock.patch("sys.stderr", io.StringIO()):
            first, second = Checkpoints(self.folder), Checkpoints(self.folder)
            for checkpoints in (first, second):
                self.assertFalse(checkpoints.load_newest(None))
            for step in (1, 2, 3):
                first.save(state(step, [[1, 0]]), lambda: None)
            second.save(state(2, [[1, 0], [2, 1]]), lambda: None)
            second.save(state(4, [[1, 0], [2, 1]]), lambda: None)
            second.save(state(5, [[1, 0], [2, 1]]), lambda: None)
        self.assert_kept(1, 2)
        self.assertEqual(self.checkpoints(), ["branch_1_replica_2", "branch_1_replica_3", "replica_4", "replica_5"])

    def earlier(self, step, **changes):
        """Replaces a checkpoint by one of an earlier release."""
        old = {**checkpoint_folder.read(self.path(step)), **changes}
        shutil.rmtree(self.path(step))
        torch.save({name: value for name, value in old.items() if value is not None}, self.path(step) + ".pt")

    def test_one_of_an_earlier_release_is_continued_and_then_has_a_lineage(self):
        self.train(size=36)
        old = checkpoint_folder.peek(self.path(8))
        self.assertEqual((old["lineage"], old["generation"]), ([[1, 0]], 1))
        self.earlier(8, lineage=None)
        shutil.rmtree(self.path(9))
        self.assertEqual(self.train(size=36), [8])
        new = checkpoint_folder.peek(self.path(9))
        self.assertEqual((new["lineage"], new["generation"]), ([[1, 0], [2, 8]], 2))
        self.assertEqual(self.checkpoints(), ["replica_8.pt", "replica_9"])

    def test_the_newest_has_most_steps_whatever_its_generation(self):
        checkpoints = Checkpoints(self.folder)
        checkpoints.save(state(3, [[1, 0], [4, 2]]), lambda: None)
        torch.save(state(9, [[1, 0], [2, 5]]), self.path(9) + ".pt")
        found, loaded = Checkpoints(self.folder), []
        self.assertTrue(found.load_newest(loaded.append))
        self.assertEqual((loaded[0]["sampler"]["step"], found.furthest().position), (9, Position(9, generation=2)))
        self.assertFalse(found.load_newest(loaded.append, "0" * 16, Position(9, generation=2)))
        self.assertTrue(found.load_newest(loaded.append, "0" * 16, Position(8, generation=7)))
        checkpoints.save(state(4, [[1, 0], [4, 2]]), lambda: None)
        checkpoints.save(state(5, [[1, 0], [4, 2]]), lambda: None)
        self.assertEqual(self.checkpoints(), ["replica_4", "replica_5", "replica_9.pt"], "the next meeting takes the last")
        os.rename(self.path(9) + ".pt", os.path.join(self.folder, "branch_12_replica_9.pt"))
        self.assertEqual(found.highest_generation(), 12)

    def test_two_branches_of_one_name_are_both_kept(self):
        checkpoints = Checkpoints(self.folder)
        for end, lineages in ((".pt", ([3, 6], [4, 6])), ("", ([5, 6], [6, 6]))):
            for last in lineages:
                if end:
                    torch.save(state(9, [[1, 0], [2, 5]]), os.path.join(self.folder, "replica_9.pt"))
                    shutil.rmtree(os.path.join(self.folder, "replica_9"), ignore_errors=True)
                with unittest.mock.patch("sys.stderr", io.StringIO()) as said:
                    checkpoints.save(state(9, [[1, 0], last]), lambda: None)
                self.assertIn("step 9 (generation ", said.getvalue())
        self.assertEqual(self.checkpoints(), ["branch_2_replica_9.2.pt", "branch_2_replica_9.pt", "branch_4_replica_9",
                                              "branch_5_replica_9", "replica_9"])
        self.assertEqual(checkpoint_folder.peek(os.path.join(self.folder, "branch_5_replica_9"))["lineage"], [[1, 0], [5, 6]])

    def test_checkpoints_of_another_run_are_not_moved(self):
        for step in (1, 2, 3):
            Checkpoints(self.folder).save(state(step, [[step, 0]], run=str(step) * 16), lambda: None)
        Checkpoints(self.folder).save(state(6, [[3, 0]]), lambda: None)
        self.assertEqual(self.checkpoints(), ["replica_1", "replica_2", "replica_3", "replica_6"])

    def test_a_claim_knows_its_generation_also_after_loading_what_an_earlier_one_made(self):
        self.train(size=36)
        with join({}) as job:
            folder = os.path.join(self.folder, "another")
            replica = self.replica(job, size=36, folder=folder)
            replica._known = 7
            os.makedirs(folder)
            shutil.copytree(self.path(9), os.path.join(folder, "replica_9"))
            replica._load_newest()
            self.assertEqual((replica.sampler.step, replica._claim().known), (9, 7))

    def test_one_without_remembered_lines_is_continued(self):
        self.train(size=36)
        self.earlier(8, recent=None)
        shutil.rmtree(self.path(9))
        self.assertEqual(self.train(size=36), [8])

    def test_checkpoint_removed_by_its_writer_is_not_damaged(self):
        with unittest.mock.patch("os.listdir", return_value=["replica_7"]), \
                unittest.mock.patch("sys.stderr", io.StringIO()) as said:
            self.assertFalse(Checkpoints(self.folder).load_newest(None))
        self.assertEqual(said.getvalue(), "")

    def test_intact_checkpoint_that_fails_to_load_is_not_damaged(self):
        self.train(counter=Counter())
        self.earlier(2, more={"counter": {"value": Colour.RED}})
        with join({}) as job, self.assertRaisesRegex(ValueError, f"^{self.path(2)}.pt is a checkpoint .*Colour"):
            self.replica(job, counter=Counter())

    def test_checkpoint_of_a_later_release_is_not_damaged(self):
        self.train()
        path, whole = self.path(2), checkpoint_folder.read(self.path(2))
        shutil.rmtree(path)
        with unittest.mock.patch("mtrun.checkpoint_folder.VERSION", 2):
            checkpoint_folder.write(path, whole)
        with join({}) as job, self.assertRaisesRegex(ValueError, f"^{path} is a checkpoint .*mtrun-replica, version 2"):
            self.replica(job)

    def test_value_that_a_checkpoint_cannot_hold_is_named_before_the_first_step(self):
        with join({}) as job, self.assertRaisesRegex(ValueError, "^counter.value is of the type .*Colour, which a checkpoint cannot"):
            self.replica(job, counter=Counter(Colour.RED))
        self.assertEqual(self.checkpoints(), [])

    def test_holding_worker_does_not_lock_the_folder(self):
        with join({}) as job:
            replica = self.replica(job)
            with unittest.mock.patch.object(job, "hold", side_effect=Interrupted("no service")):
                with self.assertRaises(Interrupted):
                    replica._save_unless_saved()
        self.assertEqual(os.listdir(self.folder), [])

    def test_state_from_another_member_must_fit(self):
        self.train()
        with join({}) as job:
            sent = []
            with unittest.mock.patch("mtrun.handover._broadcast", lambda job, tensor, source, group: sent.append(tensor.clone())):
                give(job, self.replica(job)._state())
            newcomer = self.replica(job, width=3, folder=os.path.join(self.folder, "another"))
            with unittest.mock.patch("mtrun.handover._broadcast", lambda job, tensor, source, group: tensor.copy_(sent.pop(0))):
                with self.assertRaisesRegex(ValueError, "^the state of rank 4 is from another model or program .*size mismatch"):
                    newcomer._take(4)
        self.assertEqual((self.sampler.step, newcomer._knows), (0, False))


class BuffersTest(ReplicaCase):
    def regroup(self):
        """Regroups while both wait in step 2, which is abandoned."""
        for worker in self.workers:
            worker.await_line("wants 2")
        self.values.clear()
        for rank, worker in enumerate(self.workers):
            worker.agent.say({"type": "dissolved", "generation": "1.1", "why": "cut off", "graceful": False},
                             assignment(2, rank=rank))
            worker.tell()
        for worker in self.workers:
            wait(lambda: worker.lines.count("wants 2") == 2 or worker.process.poll(), lambda: f"no step 2 but {worker.lines}")

    def test_running_statistics_are_those_of_a_worker_alone(self):
        self.start("norm")
        self.step(0)
        self.step(1)
        self.regroup()
        self.step(2)
        alone = Worker(self, self.folder + "/alone", {}, "norm", alone=True)
        alone.tell(6)
        alone.await_line("did 2")
        for step in range(3):
            for worker in self.workers:
                for got, wanted in zip(worker.told("loss", step) + worker.told("before", step),
                                       alone.told("loss", step) + alone.told("before", step), strict=True):
                    self.assertAlmostEqual(got, wanted, delta=1e-9)

    def test_buffers_changed_by_one_worker_do_not_end_the_run(self):
        self.start("strays")
        self.step(0)
        self.step(1)
        self.regroup()
        first, second = self.workers
        self.assertEqual(first.told("before", 2), second.told("before", 2))
        self.step(2)


if __name__ == "__main__":
    unittest.main()
