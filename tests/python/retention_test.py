"""Which checkpoints a save removes, and which it keeps aside."""
import unittest

import support  # the package's path
from mtrun.position import Lineage, Position
from mtrun.retention import further, sort_out

LINEAGE = Lineage([[1, 0], [3, 66]])


def found(*positions):
    return {steps: (Position(generation, steps), generation) for generation, steps in positions}


class RetentionTest(unittest.TestCase):
    def test_the_newest_ancestors_stay(self):
        self.assertEqual(sort_out(found((1, 20), (1, 40), (3, 80)), LINEAGE, 100, 3), ([20, 40], []))
        self.assertEqual(sort_out(found((1, 20), (3, 100)), LINEAGE, 100, 3), ([], []))

    def test_what_another_branch_left_is_kept_aside(self):
        self.assertEqual(sort_out(found((1, 20), (1, 40), (1, 80), (1, 100), (2, 350)), LINEAGE, 100, 3), ([20], [80, 100, 350]))

    def test_what_a_later_generation_left_is_not_touched(self):
        self.assertEqual(sort_out(found((4, 80), (4, 350)), LINEAGE, 100, 3), ([], []))
        self.assertEqual(sort_out(found((4, 100)), LINEAGE, 100, 3), ([], [100]), "but for its name")

    def test_outside_of_a_generation_nothing_else_is_decided(self):
        self.assertEqual(sort_out(found((1, 80), (2, 350), (1, 100)), LINEAGE, 100, 3, alone=True), ([], [100]))

    def test_what_lies_further_when_a_generation_begins_is_moved(self):
        self.assertEqual(further(found((1, 40), (1, 80), (2, 350), (4, 360)), LINEAGE, 66, 4), [80, 350])


if __name__ == "__main__":
    unittest.main()
