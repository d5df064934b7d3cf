"""Gradients of a step: sums start in a fixed order within the last backward pass. It needs PyTorch, but not NumPy;
tests/e2e/python_package_test.cc runs it."""
import copy
import sys
import unittest
import unittest.mock

sys.modules["numpy"] = None  # PyTorch works without it

import support  # the package's path
import torch
from mtrun import Interrupted
from mtrun.gradients import BUCKET_BYTES, FIRST_BYTES, OWN_BYTES, Gradients, plan_buckets
from mtrun.step_sums import in_sequence, in_tree_order

LARGE = OWN_BYTES["cpu"] // 4  # elements of float32


class FakeJob:
    ended = False

    def over(self):
        return self.ended


class GradientsCase(unittest.TestCase):
    def setUp(self):
        self.job, self.begun = FakeJob(), []
        for name, call in (("start", self.start), ("finish_all", lambda job, sums: None)):
            patch = unittest.mock.patch(f"mtrun.gradients.{name}", call)
            patch.start()
            self.addCleanup(patch.stop)

    def start(self, tensor, group):
        """Sums with another worker that has the same gradients."""
        self.begun.append(tensor.numel())
        tensor.mul_(2)

    def step(self, gradients, *losses, sums=None):
        gradients.begin(sums or in_sequence(len(losses)))
        for number, loss in enumerate(losses, 1):
            gradients.begin_micro_batch()
            part = loss()  # which may use p.grad for itself
            with gradients.one_pass(self.job if number == len(losses) else None):
                part.backward()
        self.within = list(self.begun)
        gradients.sum(self.job)


class SumsTest(GradientsCase):
    def setUp(self):
        super().setUp()
        torch.manual_seed(0)
        self.first, self.large = torch.nn.Linear(4, 3), torch.nn.Linear(3, LARGE // 3 + 1)
        self.unused = torch.nn.Linear(2, 2)
        self.model = torch.nn.ModuleList([self.first, self.unused, self.large])
        self.inputs = torch.randn(5, 4)

    def loss(self):
        return self.large(self.first(self.inputs)).pow(2).mean()

    def wanted(self, passes):
        for p in self.model.parameters():
            p.grad = None
        for _ in range(passes):
            self.loss().backward()
        return [2 * p.grad if p.grad is not None else torch.zeros_like(p) for p in self.model.parameters()]

    def test_each_parameter_gets_the_sum(self):
        for passes in (1, 3):
            wanted = self.wanted(passes)
            gradients = Gradients(self.model)
            for _ in range(2):
                self.step(gradients, *passes * [self.loss])
                for p, grad in zip(self.model.parameters(), wanted):
                    torch.testing.assert_close(p.grad, grad)

    def test_a_bucket_does_not_overtake_one_with_an_unused_parameter(self):
        self.step(Gradients(self.model), self.loss, self.loss)
        small = sum(p.numel() for p in [self.large.bias, *self.first.parameters(), *self.unused.parameters()])
        self.assertEqual((self.within, self.begun), ([], [small, self.large.weight.numel()]))

    def test_sums_of_a_model_without_unused_parameters_all_start_within_it(self):
        model = torch.nn.Sequential(self.first, self.large)
        self.step(Gradients(model), lambda: model(self.inputs).sum(), lambda: model(self.inputs).sum())
        self.assertEqual((len(self.within), self.within), (2, self.begun))

    def test_a_worker_without_a_pass_sums_zeros_in_the_same_order(self):
        gradients = Gradients(self.model)
        self.step(gradients, self.loss)
        busy, self.begun = self.begun, []
        self.step(gradients)
        self.assertEqual(self.begun, busy)
        self.assertTrue(all(not p.grad.any() for p in self.model.parameters()))

    def test_small_gradients_keep_their_storage(self):
        gradients, seen = Gradients(self.model), set()
        for _ in range(3):
            self.step(gradients, self.loss)
            seen.add(self.first.weight.grad.data_ptr())
            self.model.zero_grad()
        self.assertEqual(len(seen), 1)

    def test_backward_passes_of_the_program_do_not_change_earlier_micro_batches(self):
        wanted = self.wanted(3)
        gradients = Gradients(self.model)

        def loss():
            self.loss().backward()  # for example for adversarial inputs
            for p in self.model.parameters():
                p.grad = None
            return self.loss()

        self.step(gradients, loss, loss, loss, sums=in_tree_order(0, 1, 3, 3))
        for p, grad in zip(self.model.parameters(), wanted):
            torch.testing.assert_close(p.grad, grad)

    def test_a_gradient_that_the_program_leaves_before_a_pass_is_added(self):
        wanted = [2 * grad for grad in self.wanted(3)]
        gradients = Gradients(self.model)

        def loss():
            self.loss().backward()
            return self.loss()

        self.step(gradients, loss, loss, loss, sums=in_tree_order(0, 1, 3, 3))
        for p, grad in zip(self.model.parameters(), wanted):
            torch.testing.assert_close(p.grad, grad)

    def test_a_gradient_that_the_program_replaces_is_taken(self):
        gradients = Gradients(self.model)
        gradients.begin(in_sequence(1))
        with gradients.one_pass(self.job):
            self.loss().backward()
            for p in self.unused.parameters():
                p.grad = torch.ones_like(p)
        gradients.sum(self.job)
        self.assertTrue(all((p.grad == 2).all() for p in self.unused.parameters()))

    def test_a_copy_of_the_model_has_its_own_gradients(self):
        gradients = Gradients(self.model)
        gradients.begin(in_sequence(1))
        averaged = copy.deepcopy(self.model)
        with gradients.one_pass(self.job):
            averaged[2](averaged[0](self.inputs)).sum().backward()
        self.assertEqual((self.begun, self.first.weight.grad), ([], None))

    def test_gradients_of_channels_last_weights(self):
        model = torch.nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last)
        inputs = torch.randn(2, 3, 5, 5).to(memory_format=torch.channels_last)
        model(inputs).pow(2).sum().backward()
        wanted = [2 * p.grad for p in model.parameters()]
        self.step(Gradients(model), lambda: model(inputs).pow(2).sum())
        for p, grad in zip(model.parameters(), wanted):
            torch.testing.assert_close(p.grad, grad)
            self.assertEqual(p.grad.stride(), p.stride())

    def test_parameters_that_are_frozen_between_steps(self):
        gradients = Gradients(self.model)
        self.step(gradients, self.loss)
        self.large.requires_grad_(False)
        self.begun = []
        self.step(gradients, self.loss)
        self.assertEqual(len(self.begun), 1)

    def test_parameters_that_are_unfrozen_within_the_step(self):
        self.large.requires_grad_(False)
        gradients = Gradients(self.model)
        self.step(gradients, self.loss)
        for losses in ([self.loss], []):
            gradients.begin(in_sequence(len(losses)))
            self.large.requires_grad_(True)  # as in the body of a loop over steps
            self.begun = []
            for loss in losses:
                with gradients.one_pass(self.job):
                    loss().backward()
            gradients.sum(self.job)
            self.assertEqual(len(self.begun), 2)

    def test_an_empty_parameter_has_a_gradient_without_a_pass(self):
        self.model.register_parameter("empty", torch.nn.Parameter(torch.empty(0, 2)))
        self.step(Gradients(self.model))
        self.assertEqual(self.model.empty.grad.shape, (0, 2))

    def test_no_sum_starts_after_the_end_of_the_generation(self):
        self.job.ended = True
        model = torch.nn.Sequential(self.first, self.large)
        gradients = Gradients(model)
        gradients.begin(in_sequence(1))
        with gradients.one_pass(self.job):
            model(self.inputs).sum().backward()
        with self.assertRaises(Interrupted):
            gradients.sum(self.job)
        self.assertEqual(self.begun, [])

    def test_an_interrupted_sum_does_not_write_into_a_later_step(self):
        gradients, begun = Gradients(self.model), []
        with unittest.mock.patch("mtrun.gradients.start", lambda tensor, group: begun.append(tensor)), \
                unittest.mock.patch("mtrun.gradients.finish_all", side_effect=Interrupted("cut off")):
            with self.assertRaises(Interrupted):
                self.step(gradients, self.loss)
        gradients.begin(in_sequence(1))
        with gradients.one_pass(self.job):
            self.loss().backward()
            for late in begun:
                late.fill_(1e9)
        gradients.sum(self.job)
        for p in self.model.parameters():
            self.assertLess(p.grad.abs().max(), 1e6)

    def test_a_gradient_that_changes_after_its_sum_has_started_ends_the_step(self):
        model = torch.nn.Linear(4, 1)

        def twice(inputs):
            return torch.utils.checkpoint.checkpoint(model, inputs, use_reentrant=True)

        inputs = torch.randn(2, 4, requires_grad=True)
        for passes in (1, 2, 3):
            with self.assertRaisesRegex(RuntimeError, "use_reentrant=False"):
                self.step(Gradients(model), lambda: (twice(inputs) + twice(inputs)).sum(), *(passes - 1) * [lambda: model(inputs).sum()])


class TreeOrderTest(GradientsCase):
    """Contributions whose sum depends on the order, in float32."""

    def start(self, tensor, group):
        self.begun.append(tensor.numel())

    def contributions(self, parameters, passes):
        torch.manual_seed(7)
        return [[torch.randn(p.shape) * 10.0 ** torch.randint(-6, 7, p.shape) for p in parameters] for _ in range(passes)]

    def test_passes_are_added_in_the_order_of_the_tree(self):
        for size in (5, LARGE):
            model = torch.nn.Linear(1, size)
            gradients, parameters = Gradients(model), list(model.parameters())
            terms = self.contributions(parameters, 7)

            def loss_of(number):
                return lambda: sum((p * term).sum() for p, term in zip(parameters, terms[number]))

            for filled in range(1, 8):
                self.step(gradients, *map(loss_of, range(filled)), sums=in_tree_order(0, 1, 7, filled))
                for place, p in enumerate(parameters):
                    self.assertTrue(torch.equal(p.grad, tree_sum([term[place] for term in terms], 0, 7, filled)), (size, filled))

    def test_a_hook_of_the_program_sees_the_gradient_of_its_pass(self):
        for size in (5, LARGE):
            model, seen = torch.nn.Linear(1, size), []
            gradients = Gradients(model)
            terms = self.contributions([model.weight], 7)
            losses = [lambda term=term: (model.weight * term[0]).sum() for term in terms]
            model.weight.register_post_accumulate_grad_hook(lambda p, seen=seen: (seen.append(p.grad.clone()), p.grad.mul_(2), None)[-1])
            self.step(gradients, *losses, sums=in_tree_order(0, 1, 7, 7))
            self.assertTrue(all(torch.equal(each, term) for each, (term,) in zip(seen, terms)), size)
            self.assertTrue(torch.equal(model.weight.grad, tree_sum([2 * term for term, in terms], 0, 7, 7)), size)

    def test_large_gradients_stay_where_autograd_made_them(self):
        model, made = torch.nn.Linear(1, LARGE, bias=False), []
        gradients = Gradients(model)
        model.weight.register_post_accumulate_grad_hook(lambda p: made.append(p.grad.data_ptr()))
        with unittest.mock.patch("mtrun.gradients.Exchange") as exchange:
            exchange().combine.return_value = []
            self.step(gradients, *2 * [lambda: (2 * model.weight).sum()], sums=in_tree_order(2, 3, 6, 6))
        self.assertEqual([row.data_ptr() for row in exchange().start.call_args.args[0]], made, "three workers do not divide it")
        self.assertEqual(model.weight.grad.data_ptr(), made[0])

    def test_a_pass_that_does_not_use_a_parameter_adds_zero(self):
        for size in (3, LARGE):
            model = torch.nn.Linear(1, size)
            minus = torch.full((size, 1), -0.0)

            def using():
                return (model.weight * minus).sum() + model.bias.sum()

            gradients = Gradients(model)
            self.step(gradients, using, using, sums=in_tree_order(0, 1, 2, 2))
            self.assertTrue(torch.signbit(model.weight.grad).all())
            self.step(gradients, using, lambda: model.bias.sum(), sums=in_tree_order(0, 1, 2, 2))
            self.assertFalse(torch.signbit(model.weight.grad).any(), "-0.0 + 0.0 is 0.0, wherever the second pass runs")


def tree_sum(terms, begin, end, filled):
    """Returns the sum by its definition; None without a term."""
    if begin >= filled:
        return None
    if end - begin == 1:
        return terms[begin]
    middle = begin + (end - begin + 1) // 2
    left, right = tree_sum(terms, begin, middle, filled), tree_sum(terms, middle, end, filled)
    return left if right is None else left + right


class PlanTest(unittest.TestCase):
    def tensor(self, count, dtype=torch.float32):
        return torch.empty(count, dtype=dtype, device="meta")

    def sizes(self, *parameters):
        return [[p.numel() for p in bucket] for bucket in plan_buckets(list(parameters))]

    def test_the_last_parameters_come_first_and_their_bucket_is_small(self):
        quarter, count = FIRST_BYTES // 16, BUCKET_BYTES // (FIRST_BYTES // 4)
        buckets = self.sizes(*(2 * count) * [self.tensor(quarter)])
        self.assertEqual(len(buckets[0]), 4)
        self.assertEqual(sum(map(len, buckets)), 2 * count)
        self.assertTrue(all(4 * sum(bucket) <= BUCKET_BYTES for bucket in buckets))

    def test_dtypes_are_apart(self):
        self.assertEqual(self.sizes(self.tensor(3), self.tensor(4, torch.float64), self.tensor(5)), [[5, 3], [4]])

    def test_a_large_one_is_alone(self):
        large = BUCKET_BYTES // 4
        self.assertEqual(self.sizes(self.tensor(3), self.tensor(large), self.tensor(5)), [[5, 3], [large]])

    def test_an_empty_one_has_none(self):
        self.assertEqual(self.sizes(self.tensor(0), self.tensor(2)), [[2]])


if __name__ == "__main__":
    unittest.main()
