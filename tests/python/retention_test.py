"""The checkpoints that a save removes, and those that it keeps aside."""
import unittest

import support  # the package's path
from mtrun.position import Lineage, Position
from mtrun.retention import sort_out

LINEAGE = Lineage([[1, 0], [3, 66]])


def found(*positions):
    return {steps: Position(steps, generation) for generation, steps in positions}


class RetentionTest(unittest.TestCase):
    def test_the_newest_stay(self):
        self.assertEqual(sort_out(found((1, 20), (1, 40), (3, 80)), LINEAGE, 100), ([20, 40], []))
        self.assertEqual(sort_out(found((1, 20), (3, 100)), LINEAGE, 100), ([], []))

    def test_older_checkpoint_of_another_branch_is_kept_aside(self):
        self.assertEqual(sort_out(found((1, 20), (1, 40), (1, 80), (3, 90)), LINEAGE, 100), ([20, 40], [80]))
        self.assertEqual(sort_out(found((1, 20), (1, 40), (1, 80)), LINEAGE, 100), ([20, 40], []), "it may be continued from")

    def test_one_whose_name_is_needed_is_kept_aside(self):
        self.assertEqual(sort_out(found((4, 100)), LINEAGE, 100), ([], [100]))

    def test_further_ones_stay_for_the_next_meeting(self):
        self.assertEqual(sort_out(found((1, 120), (2, 350), (4, 360)), LINEAGE, 100), ([], []))

    def test_outside_of_a_generation_of_other_branches_only_the_needed_name_is_moved(self):
        self.assertEqual(sort_out(found((2, 10), (1, 20), (1, 80), (1, 100)), LINEAGE, 100, alone=True), ([20], [100]))


if __name__ == "__main__":
    unittest.main()
