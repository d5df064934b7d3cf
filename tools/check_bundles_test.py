#!/usr/bin/env python3
"""Tests of tools/check_bundles: overloads of neighbours, which the compiler silently accepts. tools/check runs it."""
import importlib.machinery
import os
import subprocess
import sys
import tempfile
import types
import unittest

sys.dont_write_bytecode = True
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "check_bundles")
module = types.ModuleType("check_bundles")
importlib.machinery.SourceFileLoader("check_bundles", SCRIPT).exec_module(module)


class BundlesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        os.mkdir(os.path.join(self.root, "room"))

    def clashes(self, one, two, lists="mt_library(mt_room\n  SOURCES\n    one.cc\n    two.cc\n  DEPS mt_base)\n"):
        for name, text in (("one.cc", one), ("two.cc", two), ("CMakeLists.txt", lists)):
            with open(os.path.join(self.root, "room", name), "w", encoding="utf-8") as file:
                file.write(text)
        for words in (["init", "-q"], ["add", "-A"]):
            subprocess.run(["git", "-C", self.root] + words, check=True)
        return list(module.clashes(self.root))

    @staticmethod
    def private(text):
        return f"namespace mtrun {{\nnamespace {{\n\n{text}\n\n}}  // namespace\n}}  // namespace mtrun\n"

    def test_a_function_with_other_parameters_is_found(self):
        found = self.clashes(self.private("int Read(int x) {\n  return x;\n}"), self.private("int Read(long x) {\n  return 1;\n}"))
        self.assertEqual(found, ["Read is in 2 files of mt_room: room/one.cc room/two.cc"])

    def test_a_public_function_of_a_neighbour_is_found(self):
        public = "namespace mtrun {\n\nint Read(int x) {\n  return x;\n}\n\n}  // namespace mtrun\n"
        self.assertEqual(len(self.clashes(public, self.private("int Read(long x) {\n  return 1;\n}"))), 1)

    def test_other_names_and_other_targets_do_not_clash(self):
        one, two = self.private("int Read(int x) {\n  return x;\n}"), self.private("int Write(int x) {\n  return x;\n}")
        self.assertEqual(self.clashes(one, two), [])
        apart = "mt_library(mt_one SOURCES one.cc)\nmt_library(mt_two SOURCES two.cc DEPS mt_one)\n"
        self.assertEqual(self.clashes(one, one, apart), [])

    def test_file_compiled_alone_does_not_clash(self):
        one = self.private("int Read(int x) {\n  return x;\n}")
        self.assertEqual(self.clashes(one, one, "mt_library(mt_room\n  SOURCES\n    one.cc\n  ALONE two.cc\n  DEPS mt_base)\n"), [])

    def test_names_in_literals_and_classes_do_not_clash(self):
        text = 'const char kPage[] = R"(\nint Read(int x) {\n)";'
        self.assertEqual(self.clashes(self.private(text), self.private("struct A {\n  int Read(int x);\n};")), [])


if __name__ == "__main__":
    unittest.main()
