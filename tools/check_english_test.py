#!/usr/bin/env python3
"""Tests of tools/check_english: which sentences it marks, and when it fails. tools/check runs it."""
import importlib.machinery
import os
import shutil
import subprocess
import sys
import tempfile
import types
import unittest

sys.dont_write_bytecode = True
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "check_english")
module = types.ModuleType("check_english")
importlib.machinery.SourceFileLoader("check_english", SCRIPT).exec_module(module)

MARKED = (
    "Where the disk is full, it waits.", "Who is silent is waited for.", "What was written is kept.", "Of two states one counts.",
    "So large jobs check less.", "Such nodes are left out.", "Nobody reads the log.", "Until then it waits.", "`Of` the two it is one.",
    "The file lies in the folder.", "The run goes on here.", "It is told by whoever comes.", "It hears of the end.",
    "A node that comes behind the step.", "It waits for so many nodes.", "The name is no node of the job.", "It counts for nothing here.",
    "A key of others.", "It is gone meanwhile.",
)
PLAIN = (
    "Returns what it was given.", "Waits until the disk has space.", "There is no limit.", "The node is no longer connected.",
    "It takes no more than a second.", "It is no more than a hint.", "It was cut off for so long that it stopped.",
    "It retries; so that the run continues.", "It is late: so far it has one step.", "Names of files, such as: such as a or b.",
    "If the disk is full, the run waits.", "Sofas and whale songs stay.",
)
COMMENT = "// Returns the value if it is set.\n"  # a tree without an "if" in its comments fails


def marked(text):
    tally = module.Tally()
    tally.add("a", 1, text)
    return tally.marked


class SentencesTest(unittest.TestCase):
    def test_relative_openings_and_idioms_are_marked(self):
        for sentence in MARKED:
            self.assertEqual(marked(sentence), [f"a:1: {sentence}"])

    def test_plain_sentences_are_not_marked(self):
        for sentence in PLAIN:
            self.assertEqual(marked(sentence), [])

    def test_labels_are_not_sentences(self):
        self.assertEqual(marked("What: where. Who."), [])

    def test_rates_count_openings_idioms_and_conditions(self):
        tally = module.Tally()
        tally.add("a", 1, "Where it is, it goes on. It ends if it can.")
        rates = tally.rates()
        self.assertEqual(rates.openings, 50.0)
        self.assertAlmostEqual(rates.idioms, 1e4 / 11)
        self.assertAlmostEqual(rates.conditions, 1e3 / 11)


class TextsTest(unittest.TestCase):
    def test_comment_lines_are_one_text(self):
        text = "// First line\n// second line.\nint x;  // Of x.\n/// A class.  NOLINT\n"
        self.assertEqual(list(module.comments(text, python=False)), [(1, "First line second line. Of x.")])
        self.assertEqual(list(module.comments("x = 1\n# one\n# two\ny = '#'\n", python=True)), [(2, "one two")])

    def test_literal_that_continues_another_opens_no_sentence(self):
        text = '#include "what is this file.h"\nFail("Where the disk is full", " of the other node here", ", so it does not run");\n'
        found = list(module.literals(text))
        self.assertEqual([line for line, _ in found], [2, 2, 2])
        self.assertEqual([bool(marked(literal)) for _, literal in found], [True, False, False])

    def test_wrapped_lines_of_a_document_are_one_text(self):
        text = "# Of all titles\nA line with `x\ny` and the size\nof a page.\n\n- an item\n  of the list\n1. another\n"
        self.assertEqual(list(module.prose(text)), [(2, "A line with X and the size of a page."), (6, "an item of the list"),
                                                    (8, "another")])

    def test_tables_pictures_and_code_are_not_prose(self):
        self.assertEqual(list(module.prose("| Who is here |\n![What is this](x.png)\n```\nWhere is it\n```\n")), [])

    def test_long_lines_are_found_except_tables_and_unbreakable_ones(self):
        text = "\n".join((120 * "x", 60 * "x " + "x", "|" + 120 * " x", 130 * "x"))
        self.assertEqual(list(module.long_lines("a.md", text)), ["a.md:2: 121 columns"])


class GateTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.write("base/a.h", COMMENT)
        os.makedirs(os.path.join(self.folder, "tools"))
        shutil.copy(SCRIPT, os.path.join(self.folder, "tools"))

    def write(self, path, text):
        os.makedirs(os.path.dirname(os.path.join(self.folder, path)), exist_ok=True)
        with open(os.path.join(self.folder, path), "w", encoding="utf-8") as file:
            file.write(text)

    def check(self, *paths):
        done = subprocess.run([sys.executable, "-B", os.path.join(self.folder, "tools", "check_english"), *paths], check=False,
                              capture_output=True, text=True)
        self.assertEqual(done.stderr, "")
        return done.returncode, done.stdout

    def test_plain_tree_passes(self):
        self.write("README.md", "# What it is\nA program that runs.\n")
        self.write("tests/base/a_test.cc", "// Checks the value.\nTEST(Value, IsSet) {}\n")
        status, said = self.check()
        self.assertEqual((status, len(said.splitlines())), (0, 6), said)

    def test_each_missed_bound_fails(self):
        for path, text, why in (
                ("base/b.h", "// Where it is full it waits.\n", "comments: 50.00 % of the sentences open with a relative word"),
                ("base/b.h", "// The file lies in the folder.\n", "comments: 769.2 idioms in 10,000 words"),
                ("base/a.h", "// Returns the value.\n", 'comments: 0.00 times "if" in 1000 words, at least 4.0 are expected'),
                ("base/b.cc", 'Fail("nobody is here now");\n', "messages: 100.00 % of the sentences open"),
                ("docs/b.md", "What was written is kept.\n", "documents: 100.00 % of the sentences open"),
                ("tests/b_test.cc", "// Of two states one counts.\n", "comments of tests: 100.00 % of the sentences open"),
                ("tests/b_test.cc", "TEST_F(B, WhoComesLateWaits) {}\n", "do not begin with a subject or a verb: WhoComesLateWaits"),
                ("README.md", 61 * "x " + "\n", "README.md:1: 122 columns")):
            with self.subTest(path=path, text=text):
                self.setUp()
                self.write(path, text)
                status, said = self.check()
                self.assertEqual(status, 1, said)
                self.assertIn(why, said)

    def test_marked_sentences_are_listed_only_for_a_missed_bound(self):
        self.write("base/b.h", 200 * COMMENT.replace("\n", "\n\n") + "// Where it is full it waits.\n")
        self.assertEqual(self.check()[0], 0)
        self.assertNotIn("base/b.h", self.check()[1])
        self.assertEqual(self.check("base"), (0, "base/b.h:401: Where it is full it waits.\n"))
        self.assertEqual(self.check("base/a.h"), (0, "nothing is marked\n"))

    def test_data_of_tests_and_wheels_are_not_read(self):
        for path in ("tests/testdata/a.md", "tests/fuzz/corpus/a.md", "tools/wheels/a.md"):
            self.write(path, "Who is here is nobody.\n")
        self.assertEqual(self.check()[0], 0)


if __name__ == "__main__":
    unittest.main()
