"""What a save puts on the disk before the checkpoint, without PyTorch; saver_with_torch.py has the rest."""
import os
import sys
import tempfile
import types
import unittest
import unittest.mock

import support  # the package's path

# These two need PyTorch.
REPLACED = {"mtrun.checkpoints": types.SimpleNamespace(Checkpoints=None),
            "mtrun.snapshot": types.SimpleNamespace(Snapshot=list)}
with unittest.mock.patch.dict(sys.modules, REPLACED):
    from mtrun import saver as module
    from mtrun.job import Interrupted


class SaverTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.ledger = os.open(os.path.join(folder.name, "ledger.jsonl"), os.O_WRONLY | os.O_CREAT)
        self.done = []
        self.job = types.SimpleNamespace(generation="1.a", hold=lambda: self.done.append("hold"), before_close=lambda _: None)
        case = self

        class Checkpoints:
            def __init__(self, _folder):
                pass

            def learn(self, _known):
                pass

            def save(self, state, confirm):
                case.done.append(("write", state))
                case.before_name()
                confirm()
                case.done.append("name")

        self.before_name = lambda: None
        with unittest.mock.patch.object(module, "Checkpoints", Checkpoints):
            self.saver = module.Saver(self.job, folder.name, Checkpoints(folder.name))
        self.saver._snapshot = types.SimpleNamespace(take=dict)

    def save(self):
        fsync = os.fsync

        def synced(fd):
            self.done.append(("fsync", os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))))
            fsync(fd)

        with unittest.mock.patch("os.fsync", synced):
            self.saver.save({"step": 7}, self.ledger)
            return self.saver.finish()

    def test_ledger_is_on_the_disk_before_the_checkpoint_is_written(self):
        self.assertTrue(self.save())
        self.assertEqual(self.done, ["hold", ("fsync", "ledger.jsonl"), ("write", {"step": 7}), "hold", "name"])
        with self.assertRaises(OSError):
            os.fstat(self.ledger)  # the save owned it

    def test_generation_that_ends_meanwhile_gives_the_checkpoint_no_name(self):
        def end():
            self.job.generation = "2.b"

        self.before_name = end
        self.assertFalse(self.save())
        self.assertNotIn("name", self.done)

    def test_lease_that_ends_meanwhile_gives_the_checkpoint_no_name(self):
        def hold():
            raise Interrupted("its lease is over")

        def end():
            self.job.hold = hold

        self.before_name = end
        self.assertFalse(self.save())
        self.assertNotIn("name", self.done)

    def test_error_of_a_save_is_raised_once(self):
        def fail():
            raise OSError("the disk is full")

        self.before_name = fail
        with self.assertRaisesRegex(OSError, "the disk is full"):
            self.save()
        self.assertTrue(self.saver.finish())


if __name__ == "__main__":
    unittest.main()
