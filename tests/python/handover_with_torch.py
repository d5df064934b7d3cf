"""A state handed to other workers in place, and what is left of it when one is lost in the middle. It needs PyTorch, but not
NumPy; tests/e2e/python_package_test.cc runs it."""
import queue
import sys
import threading
import unittest
import unittest.mock

sys.modules["numpy"] = None  # PyTorch works without it

import support  # the package's path
import torch
from mtrun import ElasticSampler, Interrupted, join
from mtrun.digests import digest_of, digest_of_state
from mtrun.handover import PIECE_BYTES, SMALL_BYTES, give, pass_on, plan_pieces, take
from mtrun.position import Lineage
from mtrun.replica import Replica
from mtrun.snapshot import Snapshot
from support import in_thread


class Wire:
    """Broadcasts from one thread to others, instead of torch.distributed. `breaks`: the number of the broadcast in which
    the giver is lost."""

    def __init__(self, takers, breaks=None):
        self.queues, self.breaks, self.sent = [queue.Queue() for _ in range(takers)], breaks, 0
        self.local = threading.local()

    def broadcast(self, job, tensor, source, group):
        if job.rank == source:
            self.sent += 1
            for each in self.queues:
                each.put(None if self.sent == self.breaks else tensor.clone())
            if self.sent == self.breaks:
                raise Interrupted("killed")
        else:
            got = self.queues[job.rank - 1].get(timeout=20)
            if got is None:
                tensor[:len(tensor) // 2] = 77  # a part has arrived
                raise Interrupted("the giver is lost")
            tensor.copy_(got)


class Job:
    def __init__(self, rank):
        self.rank = rank


def state_of(model, optimizer, **more):
    return {"model": model.state_dict(keep_vars=True), "optimizer": optimizer.state_dict(), **more}


def trained(width=300, steps=2):
    model = torch.nn.Sequential(torch.nn.Linear(300, width), torch.nn.BatchNorm1d(width), torch.nn.Linear(width, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(4, 300)).sum().backward()
        optimizer.step()
    return model, optimizer


class StatesTest(unittest.TestCase):
    def hand_over(self, state, *owns):
        wire = Wire(len(owns) + 1)
        with unittest.mock.patch("mtrun.handover._broadcast", wire.broadcast):
            takers = [in_thread(lambda rank=rank, own=own: take(Job(rank), 0, own)) for rank, own in enumerate(owns, 1)]
            bystander = in_thread(lambda: pass_on(Job(len(owns) + 1), 0))
            give(Job(0), state)
            bystander.result()
            return [taker.result() for taker in takers], wire

    def test_weights_and_optimizer_of_all_takers_are_those_of_the_giver(self):
        model, optimizer = trained()
        fresh, behind = trained(steps=0), trained(steps=1)
        places = [p.data_ptr() for p in behind[0].parameters()] + [v["exp_avg"].data_ptr() for v in behind[1].state.values()]
        states, _ = self.hand_over(state_of(model, optimizer, recent=[{"step": 3}], text="x"), state_of(*fresh), state_of(*behind))
        for (to, into), state in zip((fresh, behind), states):
            to.load_state_dict(state["model"])
            into.load_state_dict(state["optimizer"])
            self.assertEqual(digest_of_state([to.state_dict(), into.state_dict()]),
                             digest_of_state([model.state_dict(), optimizer.state_dict()]))
            self.assertEqual((state["recent"], state["text"]), ([{"step": 3}], "x"))
        self.assertEqual(places, [p.data_ptr() for p in behind[0].parameters()] +
                         [v["exp_avg"].data_ptr() for v in behind[1].state.values()])
        self.assertEqual(next(iter(states[0]["model"].values())).data_ptr(), next(fresh[0].parameters()).data_ptr())

    def test_tensors_of_any_kind(self):
        state = {"turn": torch.tensor([1j, 2 + 1j]), "low": torch.ones(3, dtype=torch.bfloat16), "none": torch.zeros(0),
                 "on": torch.tensor(True), "part": torch.arange(12.0).view(3, 4).t()[1:], "wide": torch.zeros(1).expand(5),
                 "sparse": torch.eye(3).to_sparse(), "large": torch.randn(PIECE_BYTES // 4 + 3), "nest": [(torch.ones(2), 4)]}
        (got,), wire = self.hand_over(state, {"turn": torch.zeros(2, dtype=torch.complex64), "low": torch.zeros(3)})
        for name, tensor in state.items():
            if name != "nest":
                torch.testing.assert_close(got[name], tensor)
        self.assertEqual((got["nest"][0][0].tolist(), got["nest"][0][1]), ([1, 1], 4))
        self.assertEqual(wire.sent, 2 + 3)  # skeleton, the small ones, two pieces of the large one

    def test_pieces(self):
        small = SMALL_BYTES - 1
        self.assertEqual(plan_pieces([(4, "cpu"), (0, "cpu"), (8, "cuda"), (small, "cpu")]),
                         [([(0, 0, 4), (3, 0, small)], "cpu"), ([(2, 0, 8)], "cuda")])
        self.assertEqual(plan_pieces([(PIECE_BYTES + 5, "cpu")]),
                         [([(0, 0, PIECE_BYTES)], "cpu"), ([(0, PIECE_BYTES, PIECE_BYTES + 5)], "cpu")])
        pieces = plan_pieces(1000 * [(small, "cpu")])
        self.assertTrue(all(sum(end for _, _, end in piece) <= PIECE_BYTES for piece, _ in pieces))
        self.assertEqual(sorted(index for piece, _ in pieces for index, _, _ in piece), list(range(1000)))


class LostGiverTest(unittest.TestCase):
    def setUp(self):
        support.restore_signals(self)
        torch.manual_seed(0)

    def replica(self, job, steps):
        model, optimizer = trained(steps=steps)
        return Replica(job, model, optimizer, ElasticSampler(8, 4, 4))

    def lose(self, job, taker):
        giver, wire = self.replica(job, 2), Wire(1, breaks=4)
        digest = digest_of_state(taker._state())
        with unittest.mock.patch("mtrun.handover._broadcast", wire.broadcast):
            taking = unittest.mock.Mock(rank=1)
            with self.assertRaises(Interrupted):
                give(Job(0), giver._state())
            with unittest.mock.patch.object(taker, "job", taking), self.assertRaises(Interrupted):
                taker._take(0)
        return digest_of_state(taker._state()) == digest

    def test_a_fresh_worker_does_not_claim_what_it_has(self):
        with join({}) as job:
            taker = self.replica(job, 0)
            self.assertFalse(self.lose(job, taker))
            claim = taker._claim()
            self.assertEqual((claim.holds, claim.torn), (False, True))

    def test_a_worker_gets_back_the_state_that_it_held(self):
        with join({}) as job:
            taker = self.replica(job, 1)
            taker._knows, taker._lineage = True, Lineage([(1, 0)])
            self.assertTrue(self.lose(job, taker))
            claim = taker._claim()
            self.assertEqual((claim.holds, claim.torn), (True, False))


class DigestTest(unittest.TestCase):
    def test_it_depends_on_the_values_alone(self):
        rows = torch.randn(6, 5, 4, 3)
        last = rows.to(memory_format=torch.channels_last)
        self.assertEqual(digest_of([rows]), digest_of([last]))
        with unittest.mock.patch("mtrun.digests.PIECE_BYTES", 100):
            self.assertEqual(digest_of([rows]), digest_of([last]))
        self.assertNotEqual(digest_of([rows]), digest_of([rows + 1]))
        self.assertEqual(digest_of([torch.tensor(2.0), torch.zeros(0)]), digest_of([torch.tensor([2.0])]))

    def test_of_a_state(self):
        state = lambda lr=0.1, first=1.0: {"groups": [{"lr": lr}], "state": {0: {"step": torch.tensor(first)}}}
        self.assertEqual(digest_of_state(state()), digest_of_state(state()))
        self.assertNotEqual(digest_of_state(state()), digest_of_state(state(lr=0.2)))
        self.assertNotEqual(digest_of_state(state()), digest_of_state(state(first=2.0)))
        self.assertNotEqual(digest_of_state([torch.zeros(2)]), digest_of_state([torch.zeros(1, 2)]))


class SnapshotTest(unittest.TestCase):
    def test_it_keeps_its_memory_and_not_the_values(self):
        model, optimizer = trained()
        snapshot, places = Snapshot(), set()
        for _ in range(2):
            copy = snapshot.take(state_of(model, optimizer))
            wanted = digest_of_state(copy)
            self.assertEqual(wanted, digest_of_state(state_of(model, optimizer)))
            with torch.no_grad():
                for p in model.parameters():
                    p += 1
            self.assertEqual(digest_of_state(copy), wanted)
            places.add(copy["model"]["0.weight"].data_ptr())
        self.assertEqual(len(places), 1)
        self.assertEqual(copy["model"]._metadata, model.state_dict()._metadata)

    def test_tied_weights_stay_tied(self):
        weight = torch.nn.Parameter(torch.randn(3, 3))
        copy = Snapshot().take({"a": weight, "b": weight, "c": weight[1:]})
        self.assertEqual(copy["a"].data_ptr(), copy["b"].data_ptr())
        self.assertTrue(torch.equal(copy["c"], weight[1:]))


if __name__ == "__main__":
    unittest.main()
