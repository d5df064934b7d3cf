"""tools/verify_ledger accepts what the package's ledger says of a run with deaths, and rejects what does not add up."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

import support
from mtrun.ledger import Ledger, gathered
from mtrun.sampler import ElasticSampler

RUN = "0123456789abcdef"


class LedgerTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.join(folder.name, "run")
        self.sampler = ElasticSampler(20, 8, 4, epochs=2)
        self.recent = []

    def step(self, generation, writer, world=2, gathers=None):
        """A step of the run; `writer` None: it died before it could write."""
        ids = self.sampler.ids()
        samples, hash = gathered(ids if gathers is None else gathers)
        line = Ledger.step_line(self.sampler.step, self.sampler.epoch, generation, world, ids, samples, hash, 0.1)
        self.recent.append(line)
        self.sampler.advance()
        if writer:
            writer.write(line)

    def writer(self, **more):
        ledger = Ledger(self.folder, self.sampler, **more)
        ledger.begin(RUN, self.recent)
        return ledger

    def verify(self, *flags):
        done = subprocess.run([sys.executable, os.path.join(support.ROOT, "tools", "verify_ledger"), self.folder, *flags],
                              capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def test_a_whole_run_is_proven(self):
        ledger = self.writer(data="made-up")
        while not self.sampler.finished:
            self.step(1, ledger)
        self.assertEqual(self.verify()[0], 1)  # it has not said yet that it ended
        ledger.finish("example", {}, {})
        status, said = self.verify()
        self.assertEqual(status, 0, said)

    def test_a_new_writer_repeats_what_its_predecessor_did_not_write(self):
        self.step(1, self.writer())
        self.step(1, None)
        with open(os.path.join(self.folder, "ledger.jsonl"), "ab") as file:
            file.write(b'{"step":1,"epo')  # and what it had begun to write
        second = self.writer()
        while not self.sampler.finished:
            self.step(2, second, world=1)
        status, said = self.verify("--partial")
        self.assertEqual(status, 0, said)
        self.assertIn("2 generations, world sizes 1, 2", said)

    def test_a_step_that_nobody_remembers_is_redone_in_a_higher_generation(self):
        first = self.writer()
        self.step(1, first)
        self.step(1, first)
        self.sampler.step, self.recent = 1, self.recent[:1]
        second = self.writer()
        self.assertEqual(second.highest_generation(), 1)
        while not self.sampler.finished:
            self.step(2, second)
        status, said = self.verify("--partial")
        self.assertEqual(status, 0, said)
        self.assertIn("superseded lines 1", said)

    def test_its_end_is_that_of_the_highest_generation(self):
        ledger = Ledger(self.folder, self.sampler)
        self.assertEqual(ledger.end(), (0, 0))
        first = self.writer()
        self.step(1, first)
        self.step(1, first)
        self.assertEqual(ledger.end(), (1, 2))
        self.sampler.step, self.recent = 1, self.recent[:1]
        self.step(3, self.writer())
        self.step(1, first)  # a writer that does not know that its generation is over
        self.assertEqual(ledger.end(), (3, 2))

    def test_other_samples_than_the_order_says_are_found(self):
        ledger = self.writer()
        self.step(1, ledger, gathers=self.sampler.ids()[1:])
        status, said = self.verify("--partial")
        self.assertEqual(status, 1)
        self.assertIn("gathered other samples", said)

    def test_another_runs_folder_is_refused(self):
        self.step(1, self.writer())
        with self.assertRaisesRegex(ValueError, "another run's .seed differ"):
            Ledger(self.folder, ElasticSampler(20, 8, 4, seed=9)).begin(RUN)
        with self.assertRaisesRegex(ValueError, "run differ"):
            Ledger(self.folder, self.sampler).begin("f" * 16)

    def test_lines_are_the_format_that_is_written_down(self):
        self.step(3, self.writer(data="d"))
        with open(os.path.join(self.folder, "ledger.jsonl"), encoding="utf-8") as file:
            head, line = map(json.loads, file)
        self.assertEqual(head["prev"], "0" * 64)
        self.assertEqual({**head, "prev": ""}, {"ledger": 2, "run": RUN, "seed": 0, "size": 20, "global_batch": 8,
                                                "micro_batch": 4, "shuffle": True, "data": "d", "prev": ""})
        self.assertEqual(list(line), ["step", "epoch", "generation", "world", "ids", "samples", "hash", "loss", "status",
                                      "prev"])
        self.assertEqual(line["loss"], "0.10000000000000001")


if __name__ == "__main__":
    unittest.main()
