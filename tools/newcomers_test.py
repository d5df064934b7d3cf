#!/usr/bin/env python3
"""Follows the documents as four newcomers do: with the installed programs on PATH, on a terminal of 80 columns and 24 rows.
Each command must work, say what it should, and print no line that the terminal breaks within a word.

  tools/newcomers_test.py [--build build/release]"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

TOP = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
build = os.path.join(TOP, "build", "release")


class NewcomersTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.prefix = tempfile.mkdtemp(prefix="mtrun-newcomers-")
        subprocess.run(["cmake", "--install", build, "--prefix", cls.prefix], check=True, capture_output=True)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.prefix)

    def follow(self, *documents):
        """docs/start.md comes first, because it makes the data that the others name."""
        done = subprocess.run([sys.executable, os.path.join(TOP, "tools", "check_docs"), "--bin", os.path.join(self.prefix, "bin"), "--terminal",
                               os.path.join("docs", "start.md"), *documents], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_user_of_torchrun_with_a_script(self):
        self.follow("README.md", "docs/programs.md", "docs/python.md", "docs/faq.md")

    def test_engineer_with_a_folder_of_photographs(self):
        self.follow("docs/images.md", "docs/best.md", "docs/watch.md")

    def test_author_of_the_programs_before(self):
        self.follow("docs/trainers.md", "docs/resume.md", "docs/curve.md")

    def test_operator_of_several_nodes(self):
        self.follow("docs/images.md", "docs/nodes.md", "docs/server.md", "docs/failures.md", "docs/protection.md", "docs/troubleshooting.md", "docs/clusters.md")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--build", default=build)
    args, rest = parser.parse_known_args()
    if not shutil.which("tmux"):
        print("docs.newcomers: Skipped\nno tmux here\n\n[  SKIPPED ] docs.newcomers")
        sys.exit(0)
    build = os.path.abspath(args.build)
    unittest.main(argv=sys.argv[:1] + rest)
