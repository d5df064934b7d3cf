"""tools/verify_ledger accepts the package's ledger of a run with deaths, and rejects an inconsistent one."""
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import tracemalloc
import unittest
import unittest.mock

import support
from ledger_walk import check_walk
from mtrun.ledger import Ledger, end_of, end_of_entries, gathered, missing_lines
from mtrun.position import Lineage, Position
from mtrun.sampler import ElasticSampler

RUN = "0123456789abcdef"
LONG = 100_000  # steps


class LedgerTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.join(folder.name, "run")
        self.sampler = ElasticSampler(20, 8, 4, epochs=2)
        self.recent = []

    def step(self, generation, writer, world=2, gathers=None):
        """Makes a step of the run; `writer` None: it died before it could write."""
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
        self.assertEqual(self.verify()[0], 1)  # its end is not recorded yet
        ledger.finish("example", {}, {})
        status, said = self.verify()
        self.assertEqual(status, 0, said)

    def test_a_new_writer_repeats_what_its_predecessor_did_not_write(self):
        self.step(1, self.writer())
        self.step(1, None)
        with open(os.path.join(self.folder, "ledger.jsonl"), "ab") as file:
            file.write(b'{"step":1,"epo')  # an incomplete line
        second = self.writer()
        while not self.sampler.finished:
            self.step(2, second, world=1)
        status, said = self.verify("--partial")
        self.assertEqual(status, 0, said)
        self.assertIn("2 generations, world sizes 1, 2", said)

    def test_forgotten_step_is_redone_in_a_higher_generation(self):
        first = self.writer()
        self.step(1, first)
        self.step(1, first)
        self.sampler.step, self.recent = 1, self.recent[:1]
        second = self.writer()
        self.assertEqual(second.end(), Position(2, generation=1))
        while not self.sampler.finished:
            self.step(2, second)
        status, said = self.verify("--partial")
        self.assertEqual(status, 0, said)
        self.assertIn("superseded lines 1", said)

    def enter(self, lineage, generation, steps):
        """Starts a generation's writer with the state of `steps` steps, made by these generations."""
        lineage = Lineage(lineage).enter(generation, steps)
        ledger = Ledger(self.folder, self.sampler)
        ledger.begin(RUN, self.recent, lineage, generation)
        self.sampler.step = steps
        return ledger

    def test_writer_that_continues_before_the_end_writes_a_rewind_and_its_steps(self):
        first = self.enter([], 1, 0)
        self.step(1, first)
        self.step(1, None)  # the first writer is disconnected before it writes it
        frozen = list(self.recent)
        second = self.enter([[1, 0]], 2, 1)
        self.recent = frozen[:1]
        for _ in range(3):
            self.step(2, second)
        # The second one's state is lost and has no readable checkpoint, so the first one's counts.
        self.recent = frozen
        third = self.enter([[1, 0]], 3, 2)
        self.step(3, third)
        with open(first.path, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        self.assertIn({"rewind": 2, "generation": 3, "of": 1}, [{k: v for k, v in line.items() if k != "prev"} for line in lines])
        counted = check_walk(self, ElasticSampler(20, 8, 4, epochs=2), 3, self.folder)
        self.assertEqual([counted[step]["generation"] for step in range(3)], [1, 1, 3])
        status, said = self.verify("--partial", "--no_late")
        self.assertEqual(status, 0, said)

    def test_a_writer_in_a_folder_without_the_generations_between_says_where_it_continues(self):
        """Generation 2 of another node's folder can be a branch."""
        self.step(1, self.enter([], 1, 0))
        third = self.enter([[1, 0]], 3, 1)
        self.step(3, third)
        other, self.folder, self.recent = self.folder, self.folder + "_other", []
        second = self.enter([[1, 0]], 2, 1)
        for _ in range(2):
            self.step(2, second)
        self.sampler.step = 2
        counted = check_walk(self, ElasticSampler(20, 8, 4, epochs=2), 3, other, self.folder)
        self.assertEqual([counted[step]["generation"] for step in range(3)], [1, 2, 2], "it has come further")
        self.folder = other
        self.step(3, third)
        self.step(3, third)
        counted = check_walk(self, ElasticSampler(20, 8, 4, epochs=2), 4, other, other + "_other")
        self.assertEqual([counted[step]["generation"] for step in range(4)], [1, 3, 3, 3])
        status, said = self.verify("--partial", "--no_late")
        self.assertEqual(status, 0, said)

    def test_end_of_a_ledger_is_found(self):
        def end(*lines):
            return end_of_entries([{"ledger": 2}, *lines])

        self.assertEqual(end(), (0, 0))
        self.assertEqual(end({"step": 4, "generation": 1}), (5, 1))
        self.assertEqual(end({"step": 4, "generation": 2}, {"step": 9, "generation": 1}), (5, 2), "a late line")
        self.assertEqual(end({"step": 4, "generation": 1}, {"rewind": 3, "generation": 2}), (3, 2))

    def test_missing_steps_are_found(self):
        def line(step, generation):
            return {"step": step, "generation": generation}

        third, fifth = {"rewind": 66, "generation": 3, "of": 1}, {"rewind": 70, "generation": 5, "of": 3}
        lineage = Lineage([[1, 0], [3, 66], [5, 70]])
        there = [line(step, 1) for step in range(66)]
        remembered = [line(65, 1), line(66, 3), line(69, 3)]
        self.assertEqual(missing_lines(there, remembered, lineage, 5), [third, fifth, *remembered[1:]])
        self.assertEqual(missing_lines(there[:65], remembered, lineage, 5), [third, remembered[0], fifth, *remembered[1:]])
        self.assertEqual(missing_lines(there + [line(75, 1)], [], lineage, 5), [fifth])
        self.assertEqual(missing_lines(there + [line(70, 2)], remembered, lineage, 5), [third, fifth, *remembered[1:]])
        self.assertEqual(missing_lines(there + [line(66, 4)], remembered, lineage, 5), [fifth, *remembered[1:]],
                         "generation 3's begins behind a higher one's")
        self.assertEqual(missing_lines(there, remembered, Lineage([[1, 0], [2, 66]]), 2), [line(66, 3), line(69, 3)])
        self.assertEqual(missing_lines(there + [line(66, 3)], remembered, lineage), remembered[2:])
        self.assertEqual(missing_lines(there, [], Lineage([[7, 0]]), 7), [{"rewind": 0, "generation": 7}], "it begins again")
        self.assertEqual(missing_lines([], remembered, lineage, 5), [third, remembered[0], fifth, *remembered[1:]])
        self.assertEqual(missing_lines(there, [line(66, 3)], Lineage([[3, 0]])), [line(66, 3)], "it may stand for earlier ones")

    def test_a_line_says_what_is_not_plain(self):
        """The cases of ContinueLedgerTest (tests/trainers/checkpoints/ledger_test.cc)."""
        def says(end, lineage, generation, steps=5):
            there = [{"step": end[0] - 1, "generation": end[1]}] if end[0] else []
            return any("rewind" in line for line in missing_lines(there, [], Lineage(lineage).enter(generation, steps), generation))

        at_5 = [[1, 0]]
        self.assertFalse(says((0, 0), [], 1, steps=0), "the run begins")
        self.assertFalse(says((5, 1), at_5, 2))
        self.assertFalse(says((4, 1), at_5, 2), "its writer died before the last line")
        self.assertTrue(says((9, 1), at_5, 2), "a checkpoint of before")
        for steps in (5, 4, 9):
            self.assertTrue(says((steps, 2), at_5, 3), "another branch")
        self.assertTrue(says((5, 1), at_5, 4), "2 and 3 may stand in another folder")
        self.assertTrue(says((0, 0), at_5, 4), "in a folder of its own")
        self.assertTrue(says((5, 2), [[1, 0], [9, 3]], 10), "another branch's number may be lower")
        self.assertTrue(says((2, 3), [], 4, steps=0))

    def long(self):
        """Returns a ledger of many steps, all but the first of generation 2, and the line of a writer unaware of that."""
        first = self.writer()
        self.step(1, first)
        with open(first.path, "ab") as file:
            for step in range(1, LONG):
                line = {**self.recent[0], "step": step, "generation": 2, "prev": 64 * "0"}
                file.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")
            file.write(b'{"step":77,"generation":1}\nno JSON\n[1]\n\n{"step":')
        return first.path

    def test_only_the_end_of_a_long_ledger_is_read(self):
        path, parsed, loads = self.long(), [0], json.loads

        def counting(line):
            parsed[0] += 1
            return loads(line)

        ledger, size = Ledger(self.folder, self.sampler), os.path.getsize(path)
        recent = [{**self.recent[0], "step": step, "generation": 2} for step in (LONG - 2, LONG - 1, LONG)]
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        with unittest.mock.patch("json.loads", counting):
            self.assertEqual((ledger.end(), ledger.run()), ((LONG, 2), RUN))
            ledger.begin(RUN, recent)
        self.assertLess(tracemalloc.get_traced_memory()[1], 2 << 20)
        self.assertLess(parsed[0], LONG / 2)
        with open(path, "rb") as file:
            file.seek(size)
            newline, line, rest = file.read().split(b"\n")
        self.assertEqual((newline, rest), (b"", b""))
        self.assertEqual(loads(line), {**recent[2], "prev": hashlib.sha256(b'{"step":').hexdigest()})
        for other in (Ledger(self.folder, ElasticSampler(20, 8, 4, seed=9)), Ledger(self.folder, self.sampler, data="d")):
            with self.assertRaisesRegex(ValueError, "another run"):
                other.begin(RUN)

    def test_the_end_of_a_file_is_whole_lines_however_little_of_it_is_wanted(self):
        path = self.folder + ".jsonl"
        self.assertEqual(list(end_of(path)), [])
        for text in (b"", b"a\n", b"a", b"ab\ncde\n\nf\n", b"ab\ncde\nfgh", b"ab\n" + 50 * b"x"):
            with open(path, "wb") as file:
                file.write(text)
            self.assertEqual(b"".join(end_of(path)), text)
            for wanted in range(1, len(text) + 2):
                with self.subTest(text=text, wanted=wanted):
                    lines = list(end_of(path, wanted))
                    end = b"".join(lines)
                    self.assertTrue(text.endswith(end))
                    self.assertTrue(end == text or text[:-len(end)].endswith(b"\n"), lines)
                    self.assertTrue(end == text or lines[0].endswith(b"\n"), "a line that is complete")

    def test_a_first_line_that_its_writer_did_not_end_is_followed_by_another(self):
        os.makedirs(self.folder)
        with open(os.path.join(self.folder, "ledger.jsonl"), "wb") as file:
            file.write(b'{"ledger":2,"ru')
        ledger = self.writer()
        self.assertEqual(ledger.run(), RUN)
        self.step(1, ledger)
        status, said = self.verify("--partial")
        self.assertEqual(status, 0, said)
        self.writer()  # it finds the line
        with open(ledger.path, encoding="utf-8") as file:
            self.assertEqual(file.read().count('{"ledger":2,"run"'), 1)

    def test_short_write_is_an_error(self):
        ledger, write = self.writer(), os.write
        with unittest.mock.patch("mtrun.ledger.os.write", lambda fd, data: write(fd, data[:10])):
            with self.assertRaisesRegex(OSError, r"ledger.jsonl: only 10 of \d+ bytes could be written .is the disk full"):
                self.step(1, ledger)
        self.writer()  # writes the step again, after the partial line
        status, said = self.verify("--partial")
        self.assertEqual(status, 0, said)

    def test_files_of_the_end_are_on_the_disk_before_they_have_their_names(self):
        ledger, done = self.writer(), []
        fsync, replace = os.fsync, os.replace

        def synced(fd):
            done.append(("fsync", os.path.basename(os.readlink(f"/proc/self/fd/{fd}")), os.fstat(fd).st_size))
            fsync(fd)

        def replaced(old, new):
            done.append(("replace", os.path.basename(new), os.path.getsize(old)))
            replace(old, new)

        with unittest.mock.patch("os.fsync", synced), unittest.mock.patch("os.replace", replaced):
            ledger.finish("example", {}, {})
            ledger.sync()
        config, report, lines = (os.path.getsize(os.path.join(self.folder, name))
                                 for name in ("config.yaml", "report.json", "ledger.jsonl"))
        self.assertEqual(done, [("fsync", "config.yaml.partial", config), ("replace", "config.yaml", config),
                                ("fsync", "report.json.partial", report), ("replace", "report.json", report),
                                ("fsync", "ledger.jsonl", lines)])

    def test_other_samples_than_the_order_says_are_found(self):
        ledger = self.writer()
        self.step(1, ledger, gathers=self.sampler.ids()[1:])
        status, said = self.verify("--partial")
        self.assertEqual(status, 1)
        self.assertIn("gathered other samples", said)

    def test_another_runs_folder_is_refused(self):
        self.step(1, self.writer())
        with self.assertRaisesRegex(ValueError, "another run .seed differ"):
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
