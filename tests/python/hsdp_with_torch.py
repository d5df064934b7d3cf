"""A model that is sharded within each node trains as a whole one does, whatever the number of nodes and shards, and
survives the loss of nodes. It needs PyTorch; tests/e2e/python_package_test.cc runs it."""
import os
import subprocess
import sys
import tempfile
import unittest

import support  # the package's path
import torch
from hsdp_workers import TENSORS, WORKER, Training, figures
from mtrun import ElasticSampler, Interrupted, Replica, checkpoint_folder, join
from mtrun.fsdp import local_of
from mtrun.shard_collectives import ShardCollectives
from mtrun.tensor_io import read_tensors
from mtrun.torch import leave_group
from replica_workers import DRAIN, ReplicaCase, Worker
from support import assignment

torch.set_num_threads(1)
EPOCHS = 2


class HsdpCase(ReplicaCase):
    def assert_equal(self, got, wanted, digits=1e-10):
        for mine, its in zip(got, wanted, strict=True):
            if its == its or mine == mine:  # the norm of infinite gradients is NaN
                self.assertAlmostEqual(mine, its, delta=digits * max(1.0, abs(its)))


class ExactTest(HsdpCase):
    """Losses, norms and weights; micro-batches that are computed once more, by workers that lack one. It comes first,
    because processes that have had process groups cannot be forked."""

    def compare(self, places, options=None, steps=None):
        whole, = figures(1, 1, lambda: {"sharded": False, **(options() if options else {})}, steps)
        self.assertEqual(len(whole), 3 * 3 * EPOCHS + TENSORS)
        for nodes, workers in places:
            with self.subTest(nodes=nodes, workers=workers):
                for got in figures(nodes, workers, options, steps):
                    self.assert_equal(got, whole)
        return whole

    def test_results_do_not_depend_on_nodes_and_shards(self):
        self.compare([(1, 1), (1, 2), (2, 1), (2, 2), (1, 3)])

    def test_largest_element_as_norm_and_sgd(self):
        self.compare([(2, 2)], lambda: {"optimizer": torch.optim.SGD}, {"norm_type": float("inf")})

    def test_all_skip_the_same_steps(self):
        def options():
            return {"scaler": torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=100)}

        whole = self.compare([(2, 2)], options, {"infinite": (1, 3)})
        self.assertEqual(whole[2:3 * 3 * EPOCHS:3], [0, 1, 0, 1, 0, 0])


class FolderTest(HsdpCase):
    """Checkpoints have whole tensors, so a run continues with any number of shards."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_run_continues_with_other_numbers_of_nodes_and_shards(self):
        whole, = figures(1, 1, lambda: {"sharded": False, "epochs": 4})
        begun = 0
        places = (2, 2, True), (1, 3, True), (1, 1, False), (1, 2, True)
        for epochs, (nodes, workers, sharded) in enumerate(places, 1):
            for got in figures(nodes, workers, lambda: {"epochs": epochs, "folder": self.folder, "sharded": sharded,
                                                        "checkpoint_steps": 2}):
                self.assert_equal(got[:-TENSORS], whole[begun:9 * epochs])
            begun = 9 * epochs
            self.assertIn(f"replica_{3 * epochs}", self.checkpoints())
        self.assert_equal(got[-TENSORS:], whole[-TENSORS:])
        verify = subprocess.run([sys.executable, os.path.join(support.ROOT, "tools", "verify_ledger"), self.folder],
                                capture_output=True, text=True)
        self.assertEqual(verify.returncode, 0, verify.stdout + verify.stderr)
        state = checkpoint_folder.read(os.path.join(self.folder, "replica_12"))
        self.assertEqual(list(state["model"]["middle.0.weight"].shape), [7, 6])
        self.assertEqual(list(state["optimizer"]["state"][3]["exp_avg"].shape), [7, 6])

    def test_evaluation_counts_each_sample_once_and_best_weights_are_whole(self):
        whole, = figures(1, 1, lambda: {"sharded": False, "evaluates": True})
        for got in figures(2, 2, lambda: {"folder": self.folder, "evaluates": True}):
            self.assert_equal(got, whole)
        with open(os.path.join(self.folder, "model_best.safetensors"), "rb") as file:
            best = read_tensors(file, "model_best.safetensors")
        self.assertEqual(list(best["middle.0.weight"].shape), [7, 6])


def place(number, rank, nodes):
    """Returns the assignment of a worker in a generation of nodes with two workers."""
    peers = [{"host": f"node{node}", "address": "127.0.0.1", "first_rank": 2 * node, "workers": 2}
             for node in range(nodes)]
    return assignment(number, rank=rank, world_size=2 * nodes, local_rank=rank % 2, node_rank=rank // 2, peers=peers)


def over(number):
    return {"type": "dissolved", "generation": f"{number}.{number:x}", "why": "a worker was killed", "graceful": False}


class NodesTest(HsdpCase):
    """Two nodes with two workers each, whose agents the test plays."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.values = folder.name, {}

    def worker(self, seed):
        return Worker(self, self.folder, self.values, str(seed), program=WORKER)

    def step(self, number, *workers):
        for worker in workers:
            worker.await_line(f"wants {number}")
            worker.tell()
        for worker in workers:
            worker.await_line(f"did {number}")

    def assign(self, number, *workers, ends=None):
        """Lets the workers of whole nodes form a generation. `ends`: what the first two hear of their last one."""
        self.values.clear()
        for rank, worker in enumerate(workers):
            worker.await_message("ready")
            worker.agent.say(*([ends] if ends and rank < 2 else []), place(number, rank, len(workers) // 2))

    def test_node_that_loses_a_worker_goes_and_one_that_comes_is_given_the_shards(self):
        a0, a1, b0, b1 = (self.worker(seed) for seed in (1, 1, 2, 2))
        self.assign(1, a0, a1, b0, b1)
        self.step(0, a0, a1, b0, b1)
        for each in (a0, a1, b0, b1):
            each.await_line("wants 1")
        b1.process.kill()
        b1.process.wait()
        for each in (a0, a1, b0):  # b0 waits for the other shard within its forward pass
            each.tell()
        b0.agent.say(over(1))
        self.assign(2, a0, a1, ends=over(1))
        for each in (a0, a1):
            wait_for_again(each, 1)
        for number in (1, 2):
            self.step(number, a0, a1)
        c1 = self.worker(3)
        self.assign(3, a0, a1, b0, c1, ends={**over(2), "graceful": True})
        self.step(3, a0, a1)  # they finish it, and meet the others
        self.step(4, a0, a1, b0, c1)
        for each in (a0, a1):
            each.process.kill()
        b0.tell()
        c1.tell()
        self.assign(4, b0, c1, ends=over(3))
        for each in (b0, c1):
            wait_for_again(each, 5)
        self.step(5, b0, c1)
        for each in (b0, c1):
            each.agent.say(DRAIN)
            each.await_line("wants 6")
            each.tell()
        self.assertEqual([each.status() for each in (b0, c1)], [143, 143])
        self.assertEqual(self.checkpoints(), ["replica_7"])
        self.verify()
        self.compare_with_one_worker(a0, b0, c1)

    def compare_with_one_worker(self, *workers):
        """Compares losses and checkpoint with those of a whole model that begins with the first node's values."""
        support.restore_signals(self)
        with join({}) as job:
            training = Training(job, sharded=False, epochs=4)
            for step in training.steps():
                for worker in workers:
                    if any(line.startswith(f"loss {step.number} ") for line in worker.lines):
                        self.assert_equal(worker.told("loss", step.number), [step.loss, float(step.norm)])
                if step.number == 6:
                    break
            state = checkpoint_folder.read(os.path.join(self.folder, "replica_7"))
            for name, value in training.model.state_dict().items():
                torch.testing.assert_close(state["model"][name], value, rtol=1e-9, atol=1e-9)
            moments = training.optimizer.state_dict()["state"].values()
            for mine, its in zip(moments, state["optimizer"]["state"].values(), strict=True):
                torch.testing.assert_close(its["exp_avg"], mine["exp_avg"], rtol=1e-9, atol=1e-9)
            leave_group(job)

    def test_node_alone_without_a_checkpoint_is_started_again(self):
        a0, a1 = self.worker(1), self.worker(1)
        self.assign(1, a0, a1)
        self.step(0, a0, a1)
        a1.process.kill()
        b1 = self.worker(1)
        a0.await_line("wants 1")
        a0.tell()
        self.assign(2, a0, b1, ends=over(1))
        self.assertEqual((a0.status(), b1.status()), (1, 1))
        self.assertIn("mtrun: giving up the shards of rank 0, step 1 (generation 1), because no worker has the others: "
                      "the run continues from the newest checkpoint", a0.lines)
        self.assertIn("no worker has a whole state or a checkpoint", "".join(b1.lines))


def wait_for_again(worker, number):
    """Waits until a worker asks for a step the second time: the first attempt was not committed."""
    worker._await(lambda: worker.lines.count(f"wants {number}") == 2, f"second 'wants {number}'")


class RefusalTest(HsdpCase):
    def setUp(self):
        support.restore_signals(self)

    def test_what_cannot_be_sharded_is_refused_in_one_sentence(self):
        def replica(job, optimizer=torch.optim.SGD, model=None, **options):
            model = model or torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
            made = optimizer(model.parameters(), lr=0.1)
            return Replica(job, model, made, ElasticSampler(4, 4, 4), backend="gloo", shard=lambda model, mesh: None, **options)

        with join({}) as job:
            for error, why, make in (
                    (ValueError, "^Adafactor needs whole parameters", lambda: replica(job, torch.optim.Adafactor)),
                    (ValueError, "^ema is a Linear, whose whole weights cannot follow",
                     lambda: replica(job, more={"ema": torch.nn.Linear(1, 1)})),
                    (ValueError, "^0.weight is not sharded: let `shard` also call fully_shard",
                     lambda: next(iter(replica(job).steps(lambda ids: None))))):
                with self.subTest(why=why), self.assertRaisesRegex(error, why) as raised:
                    make()
                self.assertNotIn("\n", str(raised.exception))
            leave_group(job)

    def test_model_that_is_sharded_already_is_refused(self):
        with join({}) as job:
            training = Training(job)
            next(iter(training.steps()))
            with self.assertRaisesRegex(ValueError, "^the model is sharded already"):
                Replica(job, training.model, training.optimizer, ElasticSampler(4, 4, 4))
            leave_group(job)


class InterruptedTest(HsdpCase):
    def setUp(self):
        support.restore_signals(self)

    def test_pass_after_the_end_has_zeros_and_no_exception(self):
        with join({}) as job:
            collectives, output = ShardCollectives(job, None), torch.ones(3)
            job._stop = "the end"
            collectives.run(lambda group: self.fail("it began"), output)
            self.assertEqual(output.tolist(), [0, 0, 0])
            self.assertIsInstance(collectives.error, Interrupted)

    def test_model_is_the_programs_own_between_generations(self):
        with join({}) as job:
            training = Training(job)
            for step in training.steps():
                if step.number == 1:
                    break
            held = training.replica._held
            before = {name: local_of(p.detach()).clone() for name, p in training.model.named_parameters()}
            moments = [each["exp_avg"] for each in training.optimizer.state.values()]
            self.assertTrue(held.enter(training.optimizer))
            self.assertEqual(list(before), [name for name, _ in training.model.named_parameters()])
            for name, p in training.model.named_parameters():
                self.assertTrue(torch.equal(local_of(p.detach()), before[name]), name)
            for mine, its in zip(training.optimizer.state.values(), moments, strict=True):
                self.assertEqual(local_of(mine["exp_avg"]).data_ptr(), local_of(its).data_ptr())
            training.model(training.inputs[:4]).backward()
            self.assertEqual(sum(len(each._forward_pre_hooks) for each in training.model.modules()), 2)
            leave_group(job)


if __name__ == "__main__":
    unittest.main()
