"""The order of samples equals the trainers', and each sample is used once per epoch for any number of workers."""
import itertools
import unittest

import support  # noqa: F401  (the package's path)
from mtrun.sampler import ElasticSampler, Permutation, digest, hash_of, splitmix


class SamplerTest(unittest.TestCase):
    def test_the_order_is_the_one_that_is_written_down(self):
        order = Permutation(0, 10, 0)  # docs/formats.md
        self.assertEqual([order[p] for p in range(10)], [3, 5, 7, 6, 9, 1, 2, 0, 4, 8])
        self.assertEqual(Permutation(42, 60000, 3)[0], 34527)

    def test_order_of_powers_of_four_is_the_trainers(self):
        """The values of GoldenValuesOfPowersOfFour (tests/datasets/sampler_test.cc)."""
        for size, first in ((256, [222, 55, 78, 177]), (1024, [843, 369, 367, 573]), (4096, [3271, 3579, 3148, 2650]),
                            (65536, [34527, 55943, 17116, 25801])):
            order = Permutation(42, size, 3)
            self.assertEqual([order[p] for p in range(4)], first, size)

    def test_each_sample_is_taken_once_at_any_world_size(self):
        for size, batch, micro in itertools.product((1, 7, 20, 33), (1, 6, 8, 40), (1, 3, 4)):
            for shuffle in (True, False):
                for world in (1, 2, 3, 5):
                    sampler = ElasticSampler(size, batch, micro, epochs=2, shuffle=shuffle)
                    taken = []
                    while not sampler.finished:
                        step = [i for rank in range(world) for m in sampler.micro_batches(rank, world) for i in m]
                        self.assertEqual(step, sampler.ids())
                        taken += step
                        sampler.advance()
                        self.assertEqual(sampler.samples, len(taken))
                    self.assertEqual(sorted(taken), sorted(2 * list(range(size))))

    def test_workers_of_a_node_make_equally_many_passes(self):
        for size, batch, micro in itertools.product((7, 20, 33), (1, 6, 8, 40), (1, 3)):
            sampler = ElasticSampler(size, batch, micro)
            for nodes, workers in ((1, 3), (2, 2), (3, 4)):
                for step in range(sampler.steps):
                    for node in (range(first, first + workers) for first in range(0, nodes * workers, workers)):
                        plans = [sampler.plan(rank, nodes * workers, step, node) for rank in node]
                        self.assertEqual(len({len(plan.passes) for plan in plans}), 1)
                        self.assertEqual([plan.micro_batches for plan in plans],
                                         [sampler.plan(rank, nodes * workers, step).micro_batches for rank in node])
                        first = next((each for plan in plans for each in plan.micro_batches), None)
                        self.assertTrue(all(each == first for plan in plans for each in plan.repeated))

    def test_micro_batches_do_not_depend_on_the_world_size(self):
        sampler = ElasticSampler(100, 48, 8, seed=5)
        sampler.step = 2  # the short step
        alone = sampler.micro_batches(0, 1)
        self.assertEqual([len(m) for m in alone], [4])
        for world in (2, 3, 7):
            self.assertEqual([m for rank in range(world) for m in sampler.micro_batches(rank, world)], alone)

    def test_larger_ranges_come_first_as_in_the_trainers(self):
        sampler = ElasticSampler(100, 50, 10)
        self.assertEqual([len(sampler.micro_batches(rank, 3)) for rank in range(3)], [2, 2, 1])
        self.assertEqual([len(sampler.micro_batches(rank, 7)) for rank in range(7)], [1, 1, 1, 1, 1, 0, 0])

    def test_its_state_continues_the_same_order_and_no_other(self):
        first, second = ElasticSampler(33, 8, 4, epochs=3, seed=1), ElasticSampler(33, 8, 4, epochs=9, seed=1)
        for _ in range(6):
            first.advance()
        second.load_state_dict(first.state_dict())
        self.assertEqual((second.step, second.epoch, second.ids()), (6, 1, first.ids()))
        with self.assertRaisesRegex(ValueError, "seed 1 instead of 2"):
            ElasticSampler(33, 8, 4, seed=2).load_state_dict(first.state_dict())

    def test_sums_over_parts_are_those_of_the_whole(self):
        ids = [5, 0, 2**40]
        self.assertEqual(hash_of(ids), (hash_of(ids[:1]) + hash_of(ids[1:])) % 2**64)
        self.assertEqual(splitmix(0), 0xE220A8397B1DCDAF)  # the generator's published first number
        self.assertEqual(len(digest(ids)), 64)

    def test_bad_settings_are_named(self):
        for wrong in ({"size": 0}, {"global_batch": 1.5}, {"micro_batch": -1}, {"seed": -1}, {"epochs": "3"}):
            with self.assertRaisesRegex(ValueError, next(iter(wrong))):
                ElasticSampler(**{"size": 10, "global_batch": 4, "micro_batch": 2, **wrong})
        with self.assertRaisesRegex(ValueError, "rank 2 of 2"):
            ElasticSampler(10, 4, 2).micro_batches(2, 2)


if __name__ == "__main__":
    unittest.main()
