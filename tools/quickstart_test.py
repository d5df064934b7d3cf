#!/usr/bin/env python3
"""Tests of tools/quickstart: it trains on what it was given, whatever an earlier one left. tools/check runs it.

Its programs are scripts here: an import writes down its source, a run the data set that it is given."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
TOOLS = os.path.dirname(os.path.abspath(__file__))
COMMON = """say() { :; }
fail() { echo "$0: $*" >&2; exit 1; }
stage() { :; }
stage_done() { :; }
build() { :; }
"""
# `die`: what the next import meets.
MTDATA = """#!/bin/sh
set -e
echo "$2" >>imports
if [ "$(cat die)" = before ]; then kill -KILL $PPID; exit 1; fi
[ ! -e "$3" ] || { echo "$3 exists"; exit 1; }
mkdir -p "$3"
echo "$2" >"$3/index.json"
if [ "$(cat die)" = after ]; then kill -KILL $PPID; fi
"""
MTRUN = """#!/bin/sh
while [ "$1" != --data ]; do shift; done
cat "$2/index.json" >trained
"""


class QuickstartTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.write("tools/common.sh", COMMON)
        self.write("tools/setup", "#!/bin/sh\n")
        self.write("build/release/bin/mtdata", MTDATA)
        self.write("build/release/bin/mtrun", MTRUN)
        shutil.copy(os.path.join(TOOLS, "quickstart"), os.path.join(self.folder, "tools"))
        self.sources = [os.path.join(self.folder, where, "pictures") for where in ("here", "there")]
        for source in self.sources:
            os.makedirs(source)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)

    def read(self, name):
        try:
            with open(os.path.join(self.folder, name), encoding="utf-8") as file:
                return file.read().split()
        except FileNotFoundError:
            return []

    def run_on(self, source, die="", cwd=None):
        """Status and the source of what was trained on."""
        self.write("die", die)
        self.write("trained", "")
        done = subprocess.run([os.path.join(self.folder, "tools", "quickstart"), "--data", source], capture_output=True, text=True,
                              cwd=cwd)
        return done.returncode, "".join(self.read("trained"))

    def test_each_source_is_imported_once(self):
        here, there = self.sources
        for source in (here, there, here, there):
            self.assertEqual(self.run_on(source), (0, source))
        self.assertEqual(self.read("imports"), [here, there])

    def test_one_that_is_killed_leaves_no_set_that_another_source_is_trained_on(self):
        here, there = self.sources
        for moment in ("before", "after"):
            with self.subTest(moment=moment):
                shutil.rmtree(os.path.join(self.folder, "data"), ignore_errors=True)
                self.assertEqual(self.run_on(here, die=moment), (-9, ""))
                self.assertEqual(self.run_on(there), (0, there))
                self.assertEqual(self.run_on(here), (0, here))
                self.assertEqual(self.run_on(there), (0, there))

    def test_a_set_of_which_nobody_says_what_it_was_made_of_is_left_alone(self):
        here, _ = self.sources
        self.write("data/pictures/index.json", "somebody's")
        self.assertEqual(self.run_on(here), (0, here))
        self.assertEqual(self.read("data/pictures/index.json"), ["somebody's"])

    def test_a_relative_path_begins_where_the_user_stands(self):
        here, _ = self.sources
        os.makedirs(os.path.join(self.folder, "pictures"))  # of the same name, in the clone
        self.assertEqual(self.run_on("pictures", cwd=os.path.dirname(here)), (0, here))
        self.assertEqual(self.run_on("../there/pictures", cwd=os.path.dirname(here)), (0, self.sources[1]))


if __name__ == "__main__":
    unittest.main()
