#!/usr/bin/env python3
"""Tests of tools/quickstart: it trains on the given data, whatever an earlier run left. tools/check runs it.

Its programs are scripts here: an import records its source, a run its data set."""
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
# `die`: the fate of the next import.
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
        """Returns the status and the source of the trained data."""
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

    def test_set_of_unknown_origin_is_unchanged(self):
        here, _ = self.sources
        self.write("data/pictures/index.json", "somebody's")
        self.assertEqual(self.run_on(here), (0, here))
        self.assertEqual(self.read("data/pictures/index.json"), ["somebody's"])

    def test_relative_path_starts_at_the_working_directory(self):
        here, _ = self.sources
        os.makedirs(os.path.join(self.folder, "pictures"))  # with the same name, in the clone
        self.assertEqual(self.run_on("pictures", cwd=os.path.dirname(here)), (0, here))
        self.assertEqual(self.run_on("../there/pictures", cwd=os.path.dirname(here)), (0, self.sources[1]))


if __name__ == "__main__":
    unittest.main()
