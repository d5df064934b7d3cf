"""Workers that train a Replica in processes of their own, beside agents that the tests play. It needs PyTorch, but not NumPy;
tests/e2e/python_package_test.cc runs it."""
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

sys.modules["numpy"] = None  # PyTorch does without

import support
import torch
import torch.distributed as dist
from mtrun import ElasticSampler, join
from mtrun.buffers import Buffers
from mtrun.job import CAUGHT
from mtrun.ledger import Ledger
from mtrun.replica import Replica
from mtrun.torch import leave_group
from support import Agent, assignment

ALL_REDUCE = dist.all_reduce
SOON = 60.0  # seconds: a start of PyTorch on a loaded machine
# A worker: with `norm` its network has buffers; rank 0 changes them outside of a step with `strays`. It says "wants N" before it computes step N and goes on when it is told to, says "did N" behind it.
WORKER = """import os
import sys
sys.modules["numpy"] = None
sys.path.insert(0, sys.argv[1])
import torch
import mtrun
from mtrun.replica import Replica

torch.manual_seed(0)
model = torch.nn.Linear(2, 1)
if sys.argv[3] != "plain":
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 1))
model = model.double()
buffers = lambda: [float(x) for b in model.buffers() for x in b.reshape(-1)]
sampler = mtrun.ElasticSampler(40, 4, 2, epochs=1)

def loss_of(ids):
    print("wants", sampler.step, flush=True)
    print("before", sampler.step, *buffers(), flush=True)
    sys.stdin.readline()
    return model(torch.tensor([[float(i), 1.0 + i % 3] for i in ids], dtype=torch.float64)).pow(2).mean()

with mtrun.join() as job:
    replica = Replica(job, model, torch.optim.SGD(model.parameters(), lr=1e-4), sampler, folder=sys.argv[2])
    for taken in replica.steps(loss_of):
        print("loss", taken.step, taken.loss, flush=True)
        print("did", taken.step, flush=True)
        if sys.argv[3] == "strays" and job.rank == 0:
            model(torch.ones(4, 2, dtype=torch.float64))
print("ended", flush=True)
"""


class Worker:
    """One process, and its agent. `values`: the key-value space, shared by all of a generation."""

    def __init__(self, case, folder, values, model="plain", alone=False):
        self.agent, self.values, self.heard, self.lines = Agent(), values, [], []
        case.addCleanup(self.agent.close)
        environment = {**os.environ, **({} if alone else self.agent.environment()), "PYTHONDONTWRITEBYTECODE": "1",
                       "PYTHONWARNINGS": "ignore::UserWarning"}  # of PyTorch, that there is no NumPy
        package = os.path.join(support.ROOT, "python")
        self.process = subprocess.Popen([sys.executable, "-c", WORKER, package, folder, model],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        case.addCleanup(self.close)
        self.threads = [threading.Thread(target=call, daemon=True) for call in ([] if alone else [self._serve]) + [self._read]]
        for thread in self.threads:
            thread.start()

    def close(self):
        self.process.kill()
        self.process.wait()
        for thread in self.threads:
            thread.join()
        self.process.stdin.close()
        self.process.stdout.close()

    def tell(self, micro_batches=1):
        self.process.stdin.write(micro_batches * "\n")
        self.process.stdin.flush()

    def told(self, word, step):
        """The numbers behind its last line of this kind."""
        line = [line.split() for line in self.lines if line.startswith(f"{word} {step} ")][-1]
        return [float(number) for number in line[2:]]

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


class ReplicaCase(unittest.TestCase):
    def start(self, model="plain"):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.values = folder.name, {}
        self.workers = [Worker(self, folder.name, self.values, model) for _ in range(2)]
        for rank, worker in enumerate(self.workers):
            worker.await_message("ready")
            worker.agent.say(assignment(1, rank=rank))
        for worker in self.workers:
            worker.await_line("wants 0")

    def step(self, number):
        for worker in self.workers:
            worker.tell()
        for worker in self.workers:
            worker.await_line(f"did {number}")

    def checkpoints(self):
        return sorted(name for name in os.listdir(self.folder) if name.endswith(".pt"))

    def verify(self):
        verify = [sys.executable, os.path.join(support.ROOT, "tools", "verify_ledger"), self.folder, "--partial"]
        done = subprocess.run(verify, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class StopTest(ReplicaCase):
    def setUp(self):
        self.start()

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
                    self.start()
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

    def test_what_an_earlier_generation_left_further_on_is_not_kept_instead_of_the_new(self):
        for number in CAUGHT:
            self.addCleanup(signal.signal, number, signal.getsignal(number))
        with tempfile.TemporaryDirectory() as folder:
            for step in (8, 9):
                with open(os.path.join(folder, f"replica_{step}.pt"), "wb"):
                    pass  # its node was away while others went on
            model = torch.nn.Linear(1, 1)
            with join({}) as job:
                replica = Replica(job, model, torch.optim.SGD(model.parameters(), lr=0.1), ElasticSampler(16, 4, 4, 1),
                                  folder=folder, checkpoint_steps=1)
                for _ in replica.steps(lambda ids: model(torch.ones(len(ids), 1)).mean()):
                    pass
                leave_group(job)
            self.assertEqual(sorted(name for name in os.listdir(folder) if name.startswith("replica_")),
                             ["replica_3.pt", "replica_4.pt"])

    def test_a_schedule_is_saved_with_the_step_that_it_follows(self):
        for number in CAUGHT:
            self.addCleanup(signal.signal, number, signal.getsignal(number))
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


class BuffersTest(ReplicaCase):
    def regroup(self):
        """While both wait in step 2, which is given up."""
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

    def test_what_one_worker_has_done_to_them_besides_ends_no_run(self):
        self.start("strays")
        self.step(0)
        self.step(1)
        self.regroup()
        first, second = self.workers
        self.assertEqual(first.told("before", 2), second.told("before", 2))
        self.step(2)


class BuffersOfAnyKindTest(unittest.TestCase):
    class Odd(torch.nn.Module):
        """Buffers of kinds of which a mean is no plain one, each moved by a pass."""
        def __init__(self):
            super().__init__()
            self.register_buffer("mask", torch.full((2, 2), float("-inf")))
            self.register_buffer("begun", torch.tensor(False))
            self.register_buffer("count", torch.tensor(7))
            self.register_buffer("low", torch.ones(2, dtype=torch.float16))
            self.register_buffer("turn", torch.ones(2, dtype=torch.complex64))
            self.register_buffer("cache", torch.zeros(1), persistent=False)

        def forward(self, value):
            self.begun.fill_(True)
            self.count += 1
            self.low += value
            self.turn = self.turn * 1j
            self.cache += 1

    def run_step(self, workers):
        """`workers`: what each one's passes are given. The state of each after the step."""
        each = [Buffers(self.Odd()) for _ in workers]
        for buffers, values in zip(each, workers):
            buffers.begin()
            for value in values:
                with buffers.micro_batch():
                    buffers._model(value)
        counts = sum(buffers.counts() for buffers in each)
        sums = sum(buffers.sums(counts) for buffers in each)
        for buffers in each:
            buffers.apply(counts, sums)
        return [buffers._model.state_dict() for buffers in each]

    def test_they_become_the_mean_of_what_the_passes_left(self):
        for workers in ([[1, 2, 3]], [[1], [2, 3]], [[1, 2, 3], []]):
            for state in self.run_step(workers):
                self.assertTrue(state["mask"].isneginf().all())
                self.assertEqual((state["begun"].item(), state["count"].item(), state["low"].tolist()), (True, 8, [3, 3]))
                self.assertEqual(state["turn"].tolist(), [1j, 1j])

    def test_a_pass_that_fails_leaves_them_as_they_were(self):
        model = self.Odd()
        buffers = Buffers(model)
        with self.assertRaises(KeyError), buffers.micro_batch():
            model(1)
            raise KeyError
        self.assertEqual((model.count.item(), model.begun.item()), (7, False))


class Sum:
    """Of gradients, in the place of torch's Work."""
    def __init__(self, wait):
        self.wait = wait


class AbortedSumTest(unittest.TestCase):
    def break_late(self):
        time.sleep(0.1)
        raise RuntimeError("NCCL communicator was aborted")

    def test_a_sum_that_fails_late(self):
        self.expect_no_step(lambda job: Sum(self.break_late))

    def test_a_sum_that_is_aborted_without_an_error(self):
        self.expect_no_step(lambda job: Sum(lambda: setattr(job, "_stop", "the end")))

    def test_a_sum_whose_backend_knows_of_an_error(self):
        with unittest.mock.patch("mtrun.torch._error_of", lambda device: "COMM_ERROR", create=True):
            self.expect_no_step(lambda job: Sum(lambda: None))

    def expect_no_step(self, sum_of):
        for number in CAUGHT:
            self.addCleanup(signal.signal, number, signal.getsignal(number))
        model, sampler, began = torch.nn.Linear(2, 1), ElasticSampler(8, 4, 2), []
        before = model.weight.detach().clone()

        def all_reduce(tensor, **more):
            began.append(tensor.dtype)
            return sum_of(job) if tensor.dtype == torch.float32 else ALL_REDUCE(tensor, **more)

        with join({}) as job, unittest.mock.patch("torch.distributed.all_reduce", all_reduce):
            replica = Replica(job, model, torch.optim.SGD(model.parameters(), lr=0.1), sampler)
            taken = list(replica.steps(lambda ids: model(torch.ones(len(ids), 2)).mean()))
        self.assertEqual((taken, sampler.step), ([], 0))
        self.assertTrue(torch.equal(model.weight, before))
        self.assertEqual(began, [torch.float32], "who has no whole gradients must not send what others wait for")


if __name__ == "__main__":
    unittest.main()
