#!/usr/bin/env python3
"""Tests of the results that tools/check_lint caches. Any compiler stands in for Clang. tools/check runs it."""
import importlib.machinery
import os
import sys
import tempfile
import types
import unittest

sys.dont_write_bytecode = True
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "check_lint")
module = types.ModuleType("check_lint")
importlib.machinery.SourceFileLoader("check_lint", SCRIPT).exec_module(module)


class LintTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)
        for name, text in (("one.cc", '#include "one.h"\n'), ("one.h", "int One();\n"), (".clang-tidy", "Checks: '*'\n")):
            self.write(name, text)
        module.COMPILER = "c++"
        self.runs = []
        self.answers([0])

    def write(self, name, text):
        with open(name, "w", encoding="utf-8") as file:
            file.write(text)
        module.digest_of.cache_clear()

    def answers(self, statuses):
        """Sets the tool's next exit statuses; the last one repeats."""
        def run(line):
            self.runs.append(line)
            status = statuses.pop(0) if len(statuses) > 1 else statuses[0]
            return status, "a fault" if status else ""
        module.run = run
        module.command_line = lambda tool, path, flags: ["true", tool, *flags, path]

    def check(self, tool="tidy", flags=()):
        return module.check(tool, "one.cc", list(flags))

    def test_a_clean_file_is_not_read_again(self):
        self.assertEqual(self.check(), (0, "", False))
        self.assertEqual(self.check(), (0, "", True))
        self.assertEqual(len(self.runs), 1)

    def test_named_files_that_the_preset_does_not_compile_are_told_apart(self):
        sources = {"b.cc": [], "a.cc": []}
        self.assertEqual(module.chosen([], sources), (["a.cc", "b.cc"], []))
        self.assertEqual(module.chosen(["b.cc", "cuda.cc"], sources), (["b.cc"], ["cuda.cc"]))

    def test_fault_is_reported_again(self):
        self.answers([1])
        self.assertEqual(self.check(), (1, "a fault", False))
        self.assertEqual(self.check(), (1, "a fault", False))

    def test_changed_input_is_checked_again(self):
        changes = {
            "the source": lambda: self.write("one.cc", '#include "one.h"\nint x;\n'),
            "a header": lambda: self.write("one.h", "int One(int);\n"),
            "the settings": lambda: self.write(".clang-tidy", "Checks: '-*'\n"),
        }
        for what, change in changes.items():
            self.check()
            change()
            self.assertEqual(self.check()[2], False, what)
        self.check()
        self.assertEqual(self.check(flags=["-DNDEBUG"])[2], False, "a definition")
        self.assertEqual(self.check(tool="annotations")[2], False, "the other tool")

    def test_a_file_that_became_clean_and_faulty_again_is_not_clean(self):
        self.answers([0, 1])
        self.check()
        self.write("one.h", "int Two();\n")
        self.assertEqual(self.check()[0], 1)
        self.assertEqual(self.check()[0], 1)

    def test_a_source_that_cannot_be_read_is_never_clean(self):
        self.write("one.cc", '#include "gone.h"\n')
        self.check()
        self.assertEqual(self.check()[2], False)


if __name__ == "__main__":
    unittest.main()
