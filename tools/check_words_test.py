#!/usr/bin/env python3
"""Tests of tools/check_words: in which files it looks, and what it takes for a private word there. tools/check runs it."""
import importlib.machinery
import os
import sys
import tempfile
import types
import unittest

sys.dont_write_bytecode = True
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "check_words")
module = types.ModuleType("check_words")
importlib.machinery.SourceFileLoader("check_words", SCRIPT).exec_module(module)
WORD, NAME = "kee" "per", "Sco" "utReport"  # in pieces: this file is looked at, too


class CheckWordsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)

    def write(self, path, text=""):
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def test_scripts_protocols_and_pages_are_looked_at(self):
        seen = ["rendezvous/rendezvous.proto", "page/assets/page.js", "tests/toy.py", "tests/CMakeLists.txt", "python/mtrun/job.py",
                "tools/check", "tools/cmake/Mt.cmake", ".ci/run"]
        for path in seen + ["tests/testdata/a.py", "tools/wheels/torch", "tools/check_words", "base/clock.cc", "page/assets/page.png"]:
            self.write(path)
        self.assertEqual(sorted(module.scripts()), sorted(seen))

    def test_words_and_names_have_their_lines(self):
        self.assertEqual(list(module.words_in("a", f"one\n# the {WORD} of it\n")), [f'a:2: "{WORD}": writer'])
        self.assertEqual(list(module.names_in("a", f"\n\nclass {NAME}:")), [f"a:3: {NAME}: a private word"])
        self.assertEqual(list(module.names_in("a", "class Scoutmaster: plain words")), [])


if __name__ == "__main__":
    unittest.main()
