"""Which worker holds which shard, and whose shards count when members meet."""
import unittest
from dataclasses import replace

import support  # noqa: F401  (the package's path)
from mtrun.assignment import Assignment, Peer
from mtrun.meeting import Claim, readers
from mtrun.position import Position
from mtrun.shard_layout import ShardLayout, layout_of, part_of
from mtrun.shard_meeting import only_whole, plans_of

RUN, OTHER = 11, 12


def live(steps, run=RUN, **more):
    figures = {"parameters": steps, "known": 1, **more}
    return Claim(holds=True, lived=True, run=run, position=Position(steps, 1), **figures)


class LayoutTest(unittest.TestCase):
    def test_each_node_holds_all_shards(self):
        peers = (Peer("a", "127.0.0.1", 2, 2), Peer("b", "127.0.0.1", 0, 2), Peer("spare", "127.0.0.1", 4, 0))
        layout = layout_of(Assignment(rank=3, world_size=4, peers=peers))
        self.assertEqual((layout.nodes, layout.shards, layout.shard, layout.node), (2, 2, 1, range(2, 4)))
        self.assertEqual(layout.columns, [[0, 2], [1, 3]])

    def test_other_launchers_give_the_workers_of_a_node(self):
        self.assertEqual(layout_of(Assignment(rank=5, world_size=6, local_world_size=3)), ShardLayout(2, 3, 5))
        self.assertEqual(layout_of(Assignment()), ShardLayout(1, 1, 0))

    def test_nodes_with_different_numbers_of_workers_are_refused(self):
        for given in (Assignment(world_size=3, peers=(Peer("a", "", 0, 2), Peer("b", "", 2, 1))),
                      Assignment(world_size=3, local_world_size=2)):
            with self.assertRaisesRegex(ValueError, "^the nodes have 2, 1 workers, .*the same --nproc_per_node$"):
                layout_of(given)

    def test_parts_are_those_of_torch_chunk(self):
        self.assertEqual([part_of(7, 3, shard) for shard in range(3)], [(0, 3), (3, 3), (6, 1)])
        self.assertEqual([part_of(2, 4, shard) for shard in range(4)], [(0, 1), (1, 1), (2, 0), (2, 0)])


class ShardMeetingTest(unittest.TestCase):
    columns = [[0, 2], [1, 3]]  # two nodes with two workers each

    def plans(self, *claims):
        return plans_of(only_whole(list(claims), self.columns), self.columns, 5)

    def test_each_shard_comes_from_the_lowest_rank_that_holds_it(self):
        fresh = Claim()
        plans = self.plans(fresh, live(7), live(7), live(7))  # the first node has a fresh worker
        self.assertEqual([(plan.source, plan.needy) for plan in plans], [(2, [0]), (1, [])])
        self.assertEqual({plan.generation for plan in plans}, {5})

    def test_shards_of_two_nodes_make_a_whole_state(self):
        plans = self.plans(Claim(), live(7), live(7), Claim())
        self.assertEqual([(plan.source, plan.needy) for plan in plans], [(2, [0]), (1, [3])])

    def test_state_without_one_of_its_shards_does_not_count(self):
        claims = only_whole([live(9), live(7), live(9), live(7)], self.columns)
        self.assertEqual([(claim.holds, claim.torn) for claim in claims], 4 * [(False, True)])
        claims = only_whole([live(9), live(7), live(7), live(7)], self.columns)
        self.assertEqual([claim.holds for claim in claims], [False, True, True, True])
        self.assertEqual([(plan.source, plan.needy) for plan in plans_of(claims, self.columns, 5)], [(2, [0]), (1, [])])

    def test_lost_state_yields_to_a_checkpoint(self):
        saved = {"saved": Position(4, 1), "saved_run": RUN}
        claims = only_whole([live(9, **saved), Claim(**saved)], [[0], [1]])
        self.assertEqual(readers(claims), ({0, 1}, None))

    def test_all_shards_are_of_one_run(self):
        claims = [live(7, OTHER), live(7), live(7), live(7, OTHER)]
        self.assertTrue(all(plan.rivals for plan in self.plans(*claims)))
        self.assertEqual([plan.source for plan in self.plans(*claims)], [0, 3])

    def test_different_shards_of_one_state_are_rivals(self):
        plans = self.plans(live(7), live(7), live(7), live(7, parameters=1))
        self.assertEqual([plan.rivals for plan in plans], [[], [1, 3]])

    def test_run_begins_with_the_shards_of_one_node(self):
        torn, again = Claim(torn=True), Claim(begins_again=True)
        self.assertEqual([plan.source for plan in self.plans(torn, Claim(), Claim(), Claim())], [2, 3])
        self.assertEqual([plan.source for plan in self.plans(Claim(), Claim(), again, again)], [2, 3])
        self.assertEqual([plan.needy for plan in self.plans(*4 * [Claim(parameters=1)])], [[], []])
        other = replace(Claim(), parameters=4)
        self.assertEqual([plan.needy for plan in self.plans(Claim(), Claim(), other, Claim())], [[2], []])

    def test_one_column_is_an_ordinary_meeting(self):
        claims = [live(7), Claim(), live(9)]
        self.assertEqual(only_whole(claims, [[0, 1, 2]]), claims)
        plan, = plans_of(claims, [[0, 1, 2]], 5)
        self.assertEqual((plan.source, plan.needy), (2, [0, 1]))


if __name__ == "__main__":
    unittest.main()
