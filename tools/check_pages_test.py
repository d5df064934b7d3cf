#!/usr/bin/env python3
"""Tests of tools/check_pages: links, headings and quoted messages that are not there. tools/check runs it."""
import importlib.machinery
import os
import subprocess
import sys
import tempfile
import types
import unittest

sys.dont_write_bytecode = True
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "check_pages")
module = types.ModuleType("check_pages")
importlib.machinery.SourceFileLoader("check_pages", SCRIPT).exec_module(module)

# Files of a tree that is made here.
FILE, OTHER, GONE = (os.path.join(*names) for names in (("base", "file.cc"), ("base", "other.cc"), ("docs", "gone.md")))
GOOD = {
    "README.md": "[start](docs/start.md#two-words)\n",
    "docs/start.md": "# Start\n## Two words\n[up](../README.md) [here](#start) `[no](link.md)`\n```\n[no](link.md)\n# no heading\n```\n",
    "docs/troubleshooting.md": "# Troubles\n#### `cannot open ... \"...\" here: no room`\nMend it.\n",
    FILE: 'Fail(StrCat("cannot open ", path, " \\"", why, "\\" here: "\n   "no room"));\n',
    "tools/docs.d/mkdocs.yml": "nav:\n  - start.md\n  - Troubles: troubleshooting.md\n",
}


class PagesTest(unittest.TestCase):
    def faults(self, changed=None):
        """The lines that it prints for the good tree with other files."""
        files = {**GOOD, **(changed or {})}
        with tempfile.TemporaryDirectory() as root:
            for name, text in files.items():
                path = os.path.join(root, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
            done = subprocess.run([SCRIPT, root], capture_output=True, text=True, check=False)
        self.assertEqual(done.stderr, "")
        lines = done.stdout.strip().split("\n")
        self.assertEqual(done.returncode, 0 if lines[0].endswith("messages are printed") else 1)
        return lines if done.returncode else []

    def test_a_good_tree_has_none(self):
        self.assertEqual(self.faults(), [])

    def test_a_link_to_no_file(self):
        self.assertEqual(self.faults({"README.md": f"\n[x]({GONE})\n"}), [f"README.md:2: there is no {GONE}"])

    def test_a_link_to_no_heading(self):
        self.assertEqual(self.faults({"README.md": "[x](docs/start.md#no-heading)\n"}),
                         ["README.md:1: docs/start.md has no heading #no-heading"])

    def test_a_page_that_the_site_lacks_and_one_that_is_not_there(self):
        self.assertEqual(self.faults({"tools/docs.d/mkdocs.yml": "nav:\n  - start.md\n  - gone.md\n"}),
                         ["tools/docs.d/mkdocs.yml: its nav lacks docs/troubleshooting.md",
                          f"tools/docs.d/mkdocs.yml: there is no {GONE}"])

    def test_a_message_that_nobody_prints(self):
        self.assertEqual(self.faults({FILE: 'Fail("cannot close ");\n'}),
                         ['docs/troubleshooting.md:2: no program prints: cannot open ... "..." here: no room'])

    def test_parts_in_two_files_are_no_message(self):
        found = self.faults({FILE: 'Fail("cannot open ");\n', OTHER: 'Fail("\\" here: no room");\n'})
        self.assertEqual(len(found), 1, found)

    def test_a_comment_is_no_message(self):
        self.assertEqual(len(self.faults({FILE: '// cannot open x "y" here: no room\n'})), 1)

    def test_a_message_of_which_hardly_anything_is_quoted(self):
        self.assertEqual(self.faults({"docs/troubleshooting.md": "#### `no room`\n"}),
                         ["docs/troubleshooting.md:1: quote more of the message"])

    def test_anchors_are_those_of_the_site(self):
        text = "# `--a_b` and C++: what?\n## [Link](x.md)\n## Twice\n## Twice\n"
        self.assertEqual(list(module.anchors(text)), ["--a_b-and-c-what", "link", "twice", "twice-1"])


if __name__ == "__main__":
    unittest.main()
