"""Assignments of the agent and of a launcher's variables: the limits of their values."""
import unittest

import support
from mtrun.assignment import Assignment, Peer, parse_assignment, read_assignment


class AssignmentTest(unittest.TestCase):
    def test_rank_must_be_below_the_world_size(self):
        self.assertEqual(parse_assignment(support.assignment(1, rank=1, world_size=2)).rank, 1)
        for rank, world in ((2, 2), (3, 2), (-1, 2), (0, 0)):
            with self.assertRaisesRegex(ValueError, f"the agent's assignment is malformed: rank {rank} of {world}"):
                parse_assignment(support.assignment(1, rank=rank, world_size=world))

    def test_missing_fields_are_named(self):
        for name in ("rank", "world_size", "local_rank", "local_world_size", "node_rank", "generation", "peers"):
            message = support.assignment(1)
            del message[name]
            with self.assertRaisesRegex(ValueError, f"the agent's assignment is malformed: KeyError.'{name}'"):
                parse_assignment(message)
        with self.assertRaisesRegex(ValueError, "the agent's assignment is malformed: TypeError"):
            parse_assignment(support.assignment(1, rank=None))

    def test_master_is_the_node_of_rank_0(self):
        def master(*peers):
            peers = [{"host": "h", "address": address, "first_rank": first, "workers": workers} for address, first, workers in peers]
            return parse_assignment(support.assignment(1, peers=peers)).master_addr

        self.assertEqual(master(("10.0.0.2", 2, 2), ("10.0.0.1", 0, 2)), "10.0.0.1")
        self.assertEqual(master(("10.0.0.3", 0, 0), ("10.0.0.1", 0, 1)), "10.0.0.1", "the first one has no worker")
        self.assertEqual(master(("", 0, 2)), "127.0.0.1")
        self.assertEqual(master(("10.0.0.2", 1, 2)), "127.0.0.1", "none of them has rank 0")

    def test_fields_are_taken(self):
        given = parse_assignment(support.assignment(3, rank=1, world_size=4, local_rank=5, local_world_size=6, node_rank=7))
        self.assertEqual(given, Assignment(rank=1, world_size=4, local_rank=5, local_world_size=6, node_rank=7,
                                           generation="3.3", peers=(Peer("here", "127.0.0.1", 0, 2),)))
        self.assertEqual(given.number, 3)

    def test_variables_of_a_launcher(self):
        world = {"RANK": "1", "WORLD_SIZE": "2"}
        self.assertEqual(read_assignment(world), Assignment(rank=1, world_size=2, generation="1.0"))
        for name in world:
            self.assertEqual(read_assignment({name: "1"}), Assignment(), "one of the two is missing")
        with self.assertRaisesRegex(ValueError, "RANK is 2, but must be below WORLD_SIZE, which is 2"):
            read_assignment({**world, "RANK": "2"})
        for name in ("WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT"):
            for value in ("-1", "1.5", "", "x"):
                with self.assertRaisesRegex(ValueError, f"{name} is '{value}', but must be a whole number"):
                    read_assignment({**world, name: value})


if __name__ == "__main__":
    unittest.main()
