#!/usr/bin/env python3
"""Tests of tools/check_messages. tools/check runs it."""
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "check_messages")

# Files of the tree made by the tests.
FILE, OTHER = (os.path.join("base", name) for name in ("file.cc", "other.cc"))
GOOD = {
    "docs/troubleshooting.md": "# Troubles\n#### `cannot open ... \"...\" here: no room`\nMend it.\n",
    FILE: 'Fail(StrCat("cannot open ", path, " \\"", why, "\\" here: "\n   "no room"));\n',
}


class MessagesTest(unittest.TestCase):
    def faults(self, changed=None):
        """Returns the printed lines for the good tree with changed files."""
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

    def test_message_that_no_program_prints_is_found(self):
        self.assertEqual(self.faults({FILE: 'Fail("cannot close ");\n'}),
                         ['docs/troubleshooting.md:2: no program prints: cannot open ... "..." here: no room'])

    def test_parts_in_two_files_are_not_a_message(self):
        found = self.faults({FILE: 'Fail("cannot open ");\n', OTHER: 'Fail("\\" here: no room");\n'})
        self.assertEqual(len(found), 1, found)

    def test_comment_is_not_a_message(self):
        self.assertEqual(len(self.faults({FILE: '// cannot open x "y" here: no room\n'})), 1)

    def test_a_message_of_which_hardly_anything_is_quoted(self):
        self.assertEqual(self.faults({"docs/troubleshooting.md": "#### `no room`\n"}),
                         ["docs/troubleshooting.md:1: quote more of the message"])

    def test_rule_without_a_test_is_found(self):
        files = {"docs/protocol.md": "- **R1 One.** x\n- **R2 Two.** x\n", "tests/rendezvous/x_test.cc": "/// R1, R22.\n"}
        self.assertEqual(self.faults(files), ["docs/protocol.md: no test names R2"])


if __name__ == "__main__":
    unittest.main()
