"""Positions and lineages: which state is further, which descends from which."""
import unittest

import support  # the package's path
from mtrun.position import Lineage, Position


class PositionTest(unittest.TestCase):
    def test_a_later_generation_is_further_whatever_its_steps(self):
        self.assertLess(Position(2, 130), Position(3, 67))
        self.assertLess(Position(3, 67), Position(3, 68))
        self.assertEqual(str(Position(3, 67)), "step 67 (generation 3)")


class LineageTest(unittest.TestCase):
    def test_a_generation_without_a_step_leaves_no_entry(self):
        lineage = Lineage().enter(1, 0).enter(2, 0).enter(4, 66).enter(5, 66)
        self.assertEqual(lineage.entries(), [[2, 0], [5, 66]])
        self.assertEqual(lineage.position(66), Position(2, 66))
        self.assertEqual(lineage.position(67), Position(5, 67))
        self.assertEqual(Lineage().position(0), Position(0, 0))

    def test_a_state_descends_from_what_made_its_steps(self):
        lineage = Lineage([[2, 0], [5, 66]])
        for ancestor in (Position(2, 1), Position(2, 66), Position(5, 67), Position(5, 100), Position(1, 0)):
            self.assertTrue(lineage.descends(100, ancestor), ancestor)
        for other in (Position(2, 67), Position(3, 66), Position(5, 66), Position(5, 101), Position(6, 80)):
            self.assertFalse(lineage.descends(100, other), other)

    def test_where_a_generation_starts(self):
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
