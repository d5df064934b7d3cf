#!/usr/bin/env python3
"""Tests of tools/check_references: what it recognizes as a file name, and where. tools/check runs it."""
import importlib.machinery
import os
import sys
import types
import unittest

sys.dont_write_bytecode = True
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "check_references")
module = types.ModuleType("check_references")
importlib.machinery.SourceFileLoader("check_references", SCRIPT).exec_module(module)


class CheckReferencesTest(unittest.TestCase):
    def setUp(self):
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(os.path.dirname(os.path.dirname(SCRIPT)))

    def missing(self, path, line):
        return list(module.missing_in(path, line, {"design.md"}))

    def test_a_document_that_is_not_there_is_found_by_its_name_alone(self):
        self.assertEqual(self.missing("tools/bench/checkpoint", '"""How long it takes (plan.md, figure 10).'), ["plan.md"])
        self.assertEqual(self.missing("base/clock.h", "int x;  // plan.md says why"), ["plan.md"])
        self.assertEqual(self.missing("base/clock.h", 'Read("plan.md");'), [])
        self.assertEqual(self.missing("tools/bench/checkpoint", "# design.md says why; *.md, <page>.md, $x.md"), [])

    def test_paths_are_looked_up(self):
        self.assertEqual(self.missing("tools/bench/checkpoint", "# docs/design.md, base/clock, tools/bench/step"), [])
        self.assertEqual(self.missing("tools/bench/checkpoint", "# docs/plan.md, tools/plan"), ["docs/plan.md", "tools/plan"])

    def test_tests_may_make_files_up(self):
        self.assertEqual(self.missing("tools/x_test.py", 'self.write("docs/plan.md")  # as docs/design.md'), [])
        self.assertEqual(self.missing("tools/x_test.py", "# as in plan.md"), ["plan.md"])


if __name__ == "__main__":
    unittest.main()
