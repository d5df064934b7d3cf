"""Selects whose state counts when members meet, by their live states and their disks."""
import itertools
import unittest
from dataclasses import replace

import support  # the package's path
from mtrun.meeting import NONE, Claim, claim_of, decide, discarded, find_source, readers, to_digest
from mtrun.position import Position

RUN, OTHER = 0xF123456789ABCDEF, 7


def live(generation, steps, run=RUN, **more):
    return Claim(holds=True, run=run, position=Position(steps, generation),
                 **{"lived": True, "parameters": 1000 * generation + steps, "known": generation, **more})


def fresh(generation, steps, **more):
    """Returns the claim of a process that has loaded its checkpoint."""
    return live(generation, steps, **{"lived": False, "saved": Position(steps, generation), "saved_run": RUN, **more})


def disk(generation, steps, run=RUN):
    return {"saved": Position(steps, generation), "saved_run": run}


class MeetingTest(unittest.TestCase):
    def test_claims_travel_as_int64(self):
        for claim in (Claim(), live(3, 350, buffers=2**63 - 1, gap=5, refused=True), fresh(2, 66, begins_again=True)):
            numbers = claim.numbers()
            self.assertTrue(all(-2**63 <= number < 2**63 for number in numbers))
            self.assertEqual(claim_of(numbers), claim)

    def test_digests_are_made_only_of_states_that_are_compared(self):
        self.assertEqual(to_digest([live(2, 66)]), set())
        self.assertEqual(to_digest([live(2, 66), Claim()]), set(), "who has no state receives one")
        self.assertEqual(to_digest([live(2, 66), live(2, 65)]), set())
        self.assertEqual(to_digest([live(2, 66), Claim(), live(2, 66), live(2, 65)]), {0, 2})
        self.assertEqual(to_digest([Claim(), Claim(torn=True)]), {0, 1})
        self.assertEqual(to_digest([Claim()]), set())

    def test_members_that_begin_with_equal_values_receive_nothing(self):
        begins = Claim(parameters=5, buffers=6, rest=7)
        for other, needy in ((begins, []), (replace(begins, parameters=4), [1]), (replace(begins, buffers=4), [1]),
                             (replace(begins, rest=4), [1]), (replace(begins, torn=True), [1])):
            plan = decide([begins, other], 1)
            self.assertEqual((plan.source, plan.needy, plan.nobody, plan.rivals), (0, needy, True, []))

    def test_torn_values_are_not_a_state(self):
        torn = Claim(torn=True, begins_again=True)
        self.assertEqual((decide([torn, Claim()], 1).source, decide([torn, Claim()], 1).needy), (1, [0]))
        self.assertEqual(decide([Claim(), Claim(begins_again=True)], 1).source, 1)
        self.assertEqual(decide([live(2, 66), torn], 3).needy, [1])

    def test_equal_beginners_keep_the_gap_of_the_source(self):
        self.assertEqual(decide([Claim(begins_again=True, known=3, gap=9), Claim()], 1).generation, 13)

    def test_frozen_state_yields_to_the_checkpoint_of_members_that_continued(self):
        frozen = live(2, 66, **disk(3, 350))
        self.assertEqual(readers([frozen])[0], {0})
        self.assertEqual(readers([frozen, live(2, 66)])[0], {0}, "it reads what the others have not")
        read = fresh(3, 350)
        self.assertEqual(readers([read, live(2, 66)])[0], set())
        plan = decide([read, live(2, 66)], 4)
        self.assertEqual((plan.source, plan.needy), (0, [1]))
        self.assertEqual(discarded([frozen, live(2, 66)], read), [0, 1])

    def test_unreadable_checkpoint_is_ignored(self):
        self.assertEqual(readers([live(2, 66)])[0], set())

    def test_a_checkpoint_of_another_run_is_not_read(self):
        self.assertEqual(readers([live(2, 66, **disk(9, 999, run=OTHER))])[0], set())

    def test_all_members_read_theirs_if_none_holds_a_state(self):
        self.assertEqual(readers([Claim(), Claim(**disk(3, 350))]), ({1}, None))

    def test_a_node_that_joins_with_more_steps_brings_the_run_forward(self):
        came = [live(19, 110), fresh(5, 271)]
        plan = decide(came, 3)
        self.assertEqual((plan.source, plan.needy, plan.generation), (1, [0], 20))
        self.assertEqual(discarded(came, came[1]), [0])
        self.assertEqual(discarded([fresh(19, 110), came[1]], came[1]), [], "a checkpoint is not a live state")

    def test_a_live_state_that_is_further_than_a_later_generations_counts(self):
        further, later = live(2, 100), live(3, 70, **disk(3, 70))
        self.assertEqual(readers([later, further])[0], set())
        self.assertEqual(decide([later, further], 4).source, 1)
        self.assertEqual(discarded([later, further], further), [0])
        self.assertEqual(discarded([live(3, 69), later], later), [], "it has not finished the last step")

    def test_later_generation_prevails_at_equal_steps(self):
        self.assertEqual(decide([live(2, 100), live(3, 100)], 4).source, 1)
        self.assertEqual(readers([live(2, 100, **disk(3, 100))])[0], {0})

    def test_further_disk_prevails_at_a_cold_start_in_either_order(self):
        older, newer = fresh(5, 100), fresh(5, 271)
        self.assertEqual(decide([older, newer], 1).source, 1)
        self.assertEqual(decide([newer, older], 1).source, 0)

    def test_a_state_that_others_may_have_continued_unseen_leaves_a_gap(self):
        self.assertEqual(decide([fresh(5, 100, gap=1000)], 1).generation, 1006)
        self.assertEqual(decide([live(5, 100, gap=1000)], 1).generation, 1006, "its lease had lapsed")
        self.assertEqual(decide([fresh(5, 100, gap=1000), live(5, 100)], 1).generation, 6, "one has lived on")
        self.assertEqual(decide([fresh(3, 350, gap=1000), live(2, 66)], 1).generation, 1004)
        self.assertEqual(decide([live(3, 350), live(2, 66, gap=1000)], 1).generation, 4, "of the source alone")
        self.assertEqual(decide([Claim(begins_again=True, known=5, gap=1000)], 1).generation, 1006)
        self.assertEqual(decide([Claim()], 1).generation, 1)

    def test_run_with_more_steps_prevails(self):
        self.assertEqual(find_source([live(19, 3, run=OTHER), live(5, 271)]), 1)

    def test_two_states_of_one_position_are_rivals(self):
        self.assertEqual(decide([live(5, 100), live(5, 99), live(5, 100, parameters=1)], 1).rivals, [0, 2])
        self.assertEqual(decide([live(5, 100), live(5, 100)], 1).rivals, [])

    def test_any_members_agree_and_never_go_back(self):
        positions = [Position(s, g) for g in (1, 2, 3) for s in (0, 5, 9)]
        states = [Claim()] + [live(p.generation, p.steps) for p in positions]
        disks = [{}] + [disk(p.generation, p.steps) for p in positions]
        members = [Claim(**{**vars(state), **saved}) for state, saved in itertools.product(states, disks)]
        for first, second in itertools.product(members, members):
            claims = [first, second]
            for _ in range(2):  # all disks are intact
                reads = readers(claims)[0]
                claims = [fresh(c.saved.generation, c.saved.steps, known=max(c.known, c.saved.generation)) if rank in reads else c
                          for rank, c in enumerate(claims)]
            self.assertEqual(readers(claims)[0], set())
            highest = max(max(c.position, c.saved) for c in (first, second))
            if highest != NONE:
                plan = decide(claims, 1)
                self.assertEqual(claims[plan.source].position, highest)
                self.assertEqual(highest.steps, max(p.steps for c in (first, second) for p in (c.position, c.saved)))
                self.assertGreater(plan.generation, max(highest.generation, first.known, second.known))


if __name__ == "__main__":
    unittest.main()
