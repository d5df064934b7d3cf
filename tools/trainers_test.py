#!/usr/bin/env python3
"""Tests that every trainer of trainers/trainer_list.h is where it must be, and that nothing else lists the trainers. tools/check
runs it. The packages' own tests (tools/package_test.py, tools/gpu/bundle_test.py) look into what is packaged."""
import glob
import os
import re
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
TOP = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.join(TOP, "tools"))
import trainer_names  # noqa: E402

NAMES = trainer_names.names()
# Tables with a value for each trainer, and texts for people.
MAY_LIST = ("docs/", "README.md", "CHANGELOG.md", "tools/bench/", "tests/testdata/", "trainers/trainer_list.h")


def read(path):
    with open(os.path.join(TOP, path), encoding="utf-8") as file:
        return file.read()


def lists_trainers(text, names):
    """Whether `text` has all of `names` but one in a row, with nothing but quotes, commas, endings and blanks between them."""
    name = rf"(?<!\w)(?:{'|'.join(names)})(?!\w)"
    gap = r"""(?:\.\w+)?[\s"'`,;]+"""
    return any(len(set(re.findall(name, run[0]))) >= len(names) - 1
               for run in re.finditer(rf"{name}(?:{gap}{name})+", text))


class TrainersTest(unittest.TestCase):
    def test_the_list_names_the_trainers(self):
        self.assertGreaterEqual(len(NAMES), 5)
        self.assertEqual(len(set(NAMES)), len(NAMES))
        self.assertEqual(len(NAMES), len(re.findall(r"\bX\(", read("trainers/trainer_list.h"))), "a row that is not one line")

    def test_every_file_of_a_program_is_in_the_list(self):
        files = {os.path.basename(path)[:-3] for path in glob.glob(os.path.join(TOP, "trainers", "*.cc"))}
        self.assertEqual(files - {"main"}, set(NAMES))

    def test_every_row_is_what_its_file_describes(self):
        for name, function in trainer_names.rows():
            described = read(f"trainers/{name}.cc").partition(f"trainers::Program {function}() {{")[2]
            self.assertEqual(re.search(r'\.name = "(\w+)"', described)[1], name)

    def test_documents_and_settings_have_every_trainer(self):
        for name in NAMES:
            self.assertRegex(read("docs/trainers.md"), rf"(?m)^\| `{name}` \|", "the table of docs/trainers.md")
            self.assertRegex(read("docs/design.md"), rf"(?m)^\| (`\w+` )*`{name}` (`\w+` )*\| training programs", "Programs in docs/design.md")
            settings = glob.glob(os.path.join(TOP, "configs", f"*{name}*.yaml"))
            self.assertTrue(any(re.search(rf"(?m)^{name}:", read(path)) for path in settings), f"configs/{name}-tuned.yaml")

    def test_nothing_else_lists_the_trainers(self):
        tracked = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=TOP, capture_output=True, text=True, check=True)
        lists = []
        for path in tracked.stdout.split():
            script = path.startswith("tools/") and "." not in os.path.basename(path)
            if path.startswith(MAY_LIST) or not (script or path.endswith((".py", ".cc", ".h", ".txt", ".cmake", ".sh", ".yaml"))):
                continue
            if os.path.exists(os.path.join(TOP, path)) and lists_trainers(read(path), NAMES):
                lists.append(path)
        self.assertEqual(lists, [], "read trainers/trainer_list.h instead: tools/trainer_names.py, or MT_TRAINERS in CMake")

    def test_a_list_is_seen_in_each_form(self):
        names = ("one", "two", "six")
        for text in ('("one", "two", "six")', "set(programs two.cc one.cc)", "PROGRAMS mtrun six one\n  two LABELS"):
            self.assertTrue(lists_trainers(text, names), text)
        for text in ('{"one", "other"}', '{"one": 1, "two": 2, "six": 6}', "one two_x six", "one one one"):
            self.assertFalse(lists_trainers(text, names), text)


if __name__ == "__main__":
    unittest.main()
