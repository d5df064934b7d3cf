"""A Replica's sums within this process: of buffers of any kind, and of gradients if a sum is aborted. It needs PyTorch, but
not NumPy; tests/e2e/python_package_test.cc runs it."""
import sys
import time
import unittest
import unittest.mock

sys.modules["numpy"] = None  # PyTorch works without it

import support  # the package's path
import torch
import torch.distributed as dist
from mtrun import ElasticSampler, Interrupted, join
from mtrun.buffers import Buffers
from mtrun.replica import Replica
from mtrun.sampler import share_of
from mtrun.step_sums import in_sequence, in_tree_order
from mtrun.tree_sum import STACK
from mtrun.waits import await_work

ALL_REDUCE = dist.all_reduce


class BuffersOfAnyKindTest(unittest.TestCase):
    class Odd(torch.nn.Module):
        """Buffers whose mean needs special handling, each changed by a pass."""
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
        """Returns each worker's state after the step. `workers`: the inputs of each one's passes."""
        each = [Buffers(self.Odd()) for _ in workers]
        for buffers, values in zip(each, workers):
            buffers.begin(in_sequence(len(values)))
            for value in values:
                with buffers.micro_batch():
                    buffers._model(value)
        counts = sum(buffers.counts() for buffers in each)
        sums = sum(row for buffers in each for row in buffers.partials(counts))
        for buffers in each:
            buffers.apply(counts, sums)
        return [buffers._model.state_dict() for buffers in each]

    def test_they_become_the_mean_of_what_the_passes_left(self):
        for workers in ([[1, 2, 3]], [[1], [2, 3]], [[1, 2, 3], []]):
            for state in self.run_step(workers):
                self.assertTrue(state["mask"].isneginf().all())
                self.assertEqual((state["begun"].item(), state["count"].item(), state["low"].tolist()), (True, 8, [3, 3]))
                self.assertEqual(state["turn"].tolist(), [1j, 1j])

    def test_float64_has_the_same_bits_for_any_number_of_workers(self):
        def run(world, leaves=10):
            models = [torch.nn.Module() for _ in range(world)]
            for model in models:
                model.register_buffer("some", torch.tensor([0.1, 1 / 3, 0.7, 1e-9], dtype=torch.float64))
            every = [Buffers(model) for model in models]
            states = []
            for changed in ({5}, {8}, set(), {0, 9}):
                orders = [in_tree_order(rank, world, leaves, leaves) for rank in range(world)]
                for rank, (model, buffers) in enumerate(zip(models, every)):
                    buffers.begin(orders[rank])
                    for number in share_of(rank, world, leaves):
                        with buffers.micro_batch():
                            if number in changed:
                                model.some.mul_(1.1)
                counts = sum(buffers.counts() for buffers in every)
                stack, rows = [], [row for buffers in every for row in buffers.partials(counts)]
                for left, right in orders[0].plan.additions if rows else ():
                    second = stack.pop() if right == STACK else rows[right]
                    first = stack.pop() if left == STACK else rows[left]
                    stack.append(first + second)
                for buffers in every:
                    buffers.apply(counts, (stack or rows or [torch.zeros(0)])[0])
                states.append(models[-1].some.tolist())
            self.assertEqual(states[1], states[2], "no pass has changed it")
            return states

        alone = run(1)
        for world in (2, 3, 5, 10):
            self.assertEqual(run(world), alone, world)

    def test_a_pass_that_fails_leaves_them_as_they_were(self):
        model = self.Odd()
        buffers = Buffers(model)
        with self.assertRaises(KeyError), buffers.micro_batch():
            model(1)
            raise KeyError
        self.assertEqual((model.count.item(), model.begun.item()), (7, False))


class Sum:
    """A sum of gradients that replaces torch's Work."""
    def __init__(self, wait):
        self._wait = wait

    def wait(self, *_):
        self._wait()

    def is_completed(self):
        return True


class EndsLateTest(unittest.TestCase):
    """A sum that ends between a slice of its wait and the look whether it has ended."""
    def await_one(self, outcome):
        def wait(*timeout):
            if timeout:
                raise RuntimeError("Operation timed out!")
            outcome()
        await_work(None, Sum(wait))

    def test_it_has_succeeded(self):
        self.await_one(lambda: None)

    def test_it_has_failed(self):
        with self.assertRaisesRegex(RuntimeError, "Connection closed"):
            self.await_one(unittest.mock.Mock(side_effect=RuntimeError("Connection closed by peer")))


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
        support.restore_signals(self)
        model, sampler, began = torch.nn.Linear(2, 1), ElasticSampler(8, 4, 2), []
        before = model.weight.detach().clone()

        def all_reduce(tensor, **more):
            began.append(tensor.dtype)
            return sum_of(job) if tensor.dtype == torch.float32 else ALL_REDUCE(tensor, **more)

        with join({}) as job, unittest.mock.patch("torch.distributed.all_reduce", all_reduce):
            replica = Replica(job, model, torch.optim.SGD(model.parameters(), lr=0.1), sampler)
            with self.assertRaises(Interrupted):  # there is no regrouping without mtrun
                next(replica.steps(lambda ids: model(torch.ones(len(ids), 2)).mean()))
        self.assertEqual(sampler.step, 0)
        self.assertTrue(torch.equal(model.weight, before))
        self.assertEqual(began, [torch.float32], "who has no whole gradients must not send what others wait for")


if __name__ == "__main__":
    unittest.main()
