#!/usr/bin/env python3
"""Tests of tools/fuzz_corpus and of the archives in tests/fuzz/corpus. tools/check runs it."""
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import re
import sys
import tempfile
import unittest
from unittest import mock

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
loader = importlib.machinery.SourceFileLoader("fuzz_corpus", os.path.join(HERE, "fuzz_corpus"))
fuzz_corpus = importlib.util.module_from_spec(importlib.util.spec_from_loader("fuzz_corpus", loader))
loader.exec_module(fuzz_corpus)


def written(path, data):
    with open(path, "wb") as file:
        file.write(data)
    return path


class FuzzCorpusTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.corpus = os.path.join(self.folder, "corpus")
        os.mkdir(self.corpus)

    def run_in_corpus(self, *words):
        with mock.patch.object(fuzz_corpus, "CORPUS", self.corpus), contextlib.redirect_stdout(io.StringIO()) as printed:
            fuzz_corpus.main(list(words))
        return printed.getvalue()

    def test_adds_replaces_and_unpacks_inputs(self):
        first = written(os.path.join(self.folder, "b"), b"\0\xff")
        second = written(os.path.join(self.folder, "a"), b"")
        self.assertEqual(self.run_in_corpus("add", "pickle", first), "pickle: 1 inputs\n")
        self.assertEqual(self.run_in_corpus("add", "pickle", second, written(first, b"new")), "pickle: 2 inputs\n")
        out = os.path.join(self.folder, "out")
        self.assertIn("2 inputs of 1 targets", self.run_in_corpus("unpack", out))
        self.assertEqual(sorted(os.listdir(os.path.join(out, "pickle"))), ["a", "b"])
        with open(os.path.join(out, "pickle", "b"), "rb") as file:
            self.assertEqual(file.read(), b"new")

    def test_order_and_times_of_files_do_not_change_an_archive(self):
        files = [written(os.path.join(self.folder, name), name.encode()) for name in ("x", "y")]
        self.run_in_corpus("add", "one", *files)
        for path in files:
            os.utime(path, (1, 1))
            os.chmod(path, 0o700)
            self.run_in_corpus("add", "two", path)
        archives = [open(os.path.join(self.corpus, name), "rb") for name in ("one.tar", "two.tar")]
        one, two = [archive.read() for archive in archives]
        for archive in archives:
            archive.close()
        self.assertEqual(one, two)

    def test_refuses_names_that_are_no_target_and_files_that_do_not_exist(self):
        with self.assertRaisesRegex(SystemExit, "cannot name a target"):
            self.run_in_corpus("add", "../pickle", __file__)
        with self.assertRaisesRegex(SystemExit, "No such file"):
            self.run_in_corpus("add", "pickle", os.path.join(self.folder, "none"))
        self.assertEqual(os.listdir(self.corpus), [])

    def test_kept_archives_are_as_the_tool_writes_them(self):
        for target in fuzz_corpus.targets():
            with open(fuzz_corpus.path_of(target), "rb") as file:
                self.assertEqual(file.read(), fuzz_corpus.pack(fuzz_corpus.read(target)), target)

    def test_every_target_has_an_archive(self):
        with open(os.path.join(HERE, "..", "tests", "fuzz", "CMakeLists.txt"), encoding="utf-8") as file:
            names = re.search(r"foreach\(target ([^)]*)\)", file.read())[1].split()
        self.assertEqual(sorted(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower() for name in names), fuzz_corpus.targets())


if __name__ == "__main__":
    unittest.main()
