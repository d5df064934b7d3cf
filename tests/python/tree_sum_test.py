"""The order of a step's sums: that of its definition, and of the C++ trainers."""
import os
import unittest

import support  # the package's path
from mtrun.sampler import share_of
from mtrun.step_sums import exact_sum, in_sequence, in_tree_order
from mtrun.tree_sum import STACK, leaf_steps, partial_sums, plan_tree

PLANS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "testdata", "tree_plans.txt")


def shares(world, leaves):
    return tuple(share_of(rank, world, leaves) for rank in range(world))


def order(begin, end, filled):
    """The definition: a node is halved until it is one leaf; the first half has one more if their number is odd."""
    if begin >= filled:
        return ""
    if end - begin == 1:
        return str(begin)
    half = (end - begin + 1) // 2
    first, second = order(begin, begin + half, filled), order(begin + half, end, filled)
    return f"({first}+{second})" if second else first


def perform(ranges, leaves, filled):
    """Does on texts what the workers and then the owner do on numbers."""
    plan, inputs = plan_tree(ranges, leaves, filled), []
    for rank, own in enumerate(ranges):
        stack = []
        for leaf, step in zip(own, leaf_steps(own, leaves, filled)):
            stack.append(str(leaf))
            for _ in range(step.additions):
                right = stack.pop()
                stack.append(f"({stack.pop()}+{right})")
        assert len(stack) == plan.partials[rank] == len(partial_sums(own, leaves, filled))
        inputs += stack
    stack = []
    for left, right in plan.additions:
        second = stack.pop() if right == STACK else inputs[right]
        first = stack.pop() if left == STACK else inputs[left]
        stack.append(f"({first}+{second})")
    return stack[0] if stack else inputs[0]


class TreeSumTest(unittest.TestCase):
    def test_any_division_gives_the_order_of_the_definition(self):
        for leaves in range(1, 14):
            for filled in range(1, leaves + 1):
                for world in range(1, 9):
                    self.assertEqual(perform(shares(world, leaves), leaves, filled), order(0, leaves, filled), (leaves, filled, world))

    def test_plans_are_those_of_the_trainers(self):
        """tests/trainers/collectives/tree_sum_test.cc reads the same file."""
        with open(PLANS, encoding="utf-8") as file:
            lines = [list(map(int, line.split())) for line in file if line[0] != "#"]
        self.assertGreater(len(lines), 100)
        for leaves, filled, world, digest in lines:
            self.assertEqual(plan_tree(shares(world, leaves), leaves, filled).digest(), digest, (leaves, filled, world))

    def test_the_order_between_workers_matters_from_three_terms_on(self):
        self.assertFalse(in_tree_order(0, 1, 8, 8).by_exchange)
        self.assertFalse(in_tree_order(1, 2, 7, 7).by_exchange)
        self.assertTrue(in_tree_order(1, 3, 4, 4).by_exchange)
        self.assertFalse(in_tree_order(2, 3, 4, 2).by_exchange)
        self.assertFalse(in_sequence(5).by_exchange)

    def test_a_sequence_adds_each_pass_to_the_sum_before(self):
        self.assertEqual([(step.additions, step.ends_partial) for step in in_sequence(3).steps],
                         [(0, False), (1, False), (1, True)])
        self.assertEqual(in_sequence(0).steps, ())


class ExactSumTest(unittest.TestCase):
    def test_no_order_changes_a_digit(self):
        values = [1e16, 1.0, -1e16, 2.0**-60, 0.1, 0.2, 0.3]
        for turn in range(len(values)):
            self.assertEqual(exact_sum(values[turn:] + values[:turn]).hex(), exact_sum(values).hex())
        self.assertEqual(str(exact_sum([-0.0])), "0.0")

    def test_infinities_and_numbers_that_are_none(self):
        infinite, none = float("inf"), float("nan")
        self.assertEqual(exact_sum([1.0, infinite]), infinite)
        self.assertEqual(exact_sum([1e308, 1e308]), infinite)
        for values in ([infinite, -infinite], [none, 1.0], [infinite, none]):
            self.assertNotEqual(exact_sum(values), exact_sum(values))


if __name__ == "__main__":
    unittest.main()
