"""Positions and lineages: the order of states, and their ancestors."""
import unittest

import support  # the package's path
from mtrun.position import Lineage, Position


class PositionTest(unittest.TestCase):
    def test_more_steps_are_further_whatever_their_generation(self):
        self.assertLess(Position(67, generation=3), Position(130, generation=2))
        self.assertLess(Position(67, generation=3), Position(68, generation=3))
        self.assertLess(Position(67, generation=2), Position(67, generation=3))
        self.assertEqual(str(Position(67, generation=3)), "step 67 (generation 3)")


class LineageTest(unittest.TestCase):
    def test_a_generation_without_a_step_leaves_no_entry(self):
        lineage = Lineage().enter(1, 0).enter(2, 0).enter(4, 66).enter(5, 66)
        self.assertEqual(lineage.entries(), [[2, 0], [5, 66]])
        self.assertEqual(lineage.position(66), Position(66, generation=2))
        self.assertEqual(lineage.position(67), Position(67, generation=5))
        self.assertEqual(Lineage().position(0), Position(0, generation=0))

    def test_a_state_descends_from_what_made_its_steps(self):
        lineage = Lineage([[2, 0], [5, 66]])
        for ancestor in (Position(1, 2), Position(66, 2), Position(67, 5), Position(100, 5), Position(0, 1)):
            self.assertTrue(lineage.descends(100, ancestor), ancestor)
        for other in (Position(67, 2), Position(66, 3), Position(66, 5), Position(101, 5), Position(80, 6)):
            self.assertFalse(lineage.descends(100, other), other)

    def test_start_of_a_generation(self):
        lineage = Lineage([[2, 0], [5, 66], [9, 80]])
        self.assertEqual((lineage.start(5), lineage.start(9)), ((66, 2), (80, 5)))
        self.assertIsNone(lineage.start(3))
        self.assertIsNone(lineage.start(2), "it may stand for earlier ones")
        self.assertEqual(lineage.start(2, begins=True), (0, 0))

    def test_one_that_does_not_ascend_is_refused(self):
        for entries in ([[2, 0], [2, 5]], [[3, 0], [2, 5]], [[2, 5], [3, 4]]):
            with self.assertRaises(ValueError):
                Lineage(entries)


if __name__ == "__main__":
    unittest.main()
