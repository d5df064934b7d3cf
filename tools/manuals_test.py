#!/usr/bin/env python3
"""Tests of tools/manuals: manual pages and completions from texts in the form of --help."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "docs.d"))
import completions  # noqa: E402
import manual  # noqa: E402

HELP = """Packs images, shows them and counts them.

usage: packer COMMAND [flags]
       packer --version

examples:
  # pack a folder
  packer pack photos/ out

A path like .hidden or C:\\x is taken as it is.

Commands:
  pack      Packs images.
"""
PACK = """Packs images.

usage: packer pack SOURCE DEST [flags]

examples:
  # one folder
  packer pack photos/ out

SOURCE is one of
  folder     images

Flags:
  --format auto|idx|folder    Format of SOURCE. [auto]
  -f, --force                 Replace DEST, even if it
                              is full.
  --labels FILE               File with classes.
  --shard_mib MIB             Size of a shard. [64]
"""


class ManualTest(unittest.TestCase):
    def setUp(self):
        self.page = manual.page("packer", "1.2.3", HELP, [("pack", PACK)])

    def test_the_parts_of_a_help_have_their_sections(self):
        self.assertIn('.TH PACKER 1 "" "mtrun 1.2.3"', self.page)
        self.assertIn("\npacker \\- packs images, shows them and counts them\n", self.page)
        self.assertIn(".SH SYNOPSIS\n.nf\npacker COMMAND [flags]\npacker \\-\\-version\n.fi", self.page)
        self.assertIn(".TP\n\\fB\\-\\-format auto|idx|folder\\fR\nFormat of SOURCE. [auto]\n", self.page)
        self.assertIn("Replace DEST, even if it is full.", self.page, "a text on two lines is one paragraph")
        self.assertIn(".nf\nSOURCE is one of\n  folder     images\n.fi", self.page, "a list keeps its lines")

    def test_no_text_is_a_request(self):
        self.assertEqual(manual.escape(".TH x"), "\\&.TH x")
        self.assertEqual(manual.escape("'quoted'"), "\\&'quoted'")
        self.assertEqual(manual.escape("C:\\x --y"), "C:\\ex \\-\\-y")

    def test_the_formatter_has_no_complaint(self):
        if shutil.which("groff") is None:
            self.skipTest("groff is not here")
        done = subprocess.run(["groff", "-man", "-Tutf8", "-ww"], input=self.page, capture_output=True, text=True, check=True)
        self.assertEqual(done.stderr, "")
        self.assertIn("C:\\x", done.stdout)


class CompletionTest(unittest.TestCase):
    def offers(self, *words):
        """Returns what bash offers for the last word; "<files>" for names of files."""
        script = completions.bash("packer", {"": completions.flags_of(HELP), "pack": completions.flags_of(PACK)})
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "packer")
            with open(path, "w", encoding="utf-8") as file:
                file.write(script)
            array = " ".join(f"'{word}'" for word in ("packer",) + words)
            done = subprocess.run(["bash", "-c", (f"compopt() {{ echo '<files>'; }}; source {path}; COMP_WORDS=({array}); COMP_CWORD={len(words)}; "
                                                 "_packer; ((${#COMPREPLY[@]})) && printf '%s\\n' \"${COMPREPLY[@]}\" || true")],
                                  capture_output=True, text=True, check=True)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_commands_then_their_flags_and_values(self):
        self.assertEqual(self.offers("p"), ["pack"])
        self.assertEqual(self.offers("pack", "--f"), ["--format", "--force"])
        self.assertEqual(self.offers("pack", "--shard-m"), ["--shard-mib"], "dashes are like underscores")
        self.assertEqual(self.offers("pack", "--format", "i"), ["idx"])
        self.assertEqual(self.offers("pack", "--format", "=", "i"), ["idx"])
        self.assertEqual(self.offers("pack", "--shard_mib", ""), [], "a number cannot be offered")

    def test_files_where_a_file_is_wanted(self):
        self.assertEqual(self.offers("pack", "--labels", "x"), ["<files>"])
        self.assertEqual(self.offers("pack", "x"), ["<files>"])
        self.assertEqual(self.offers("pack", "--force", "x"), ["<files>"], "a switch takes no value")

    def test_fish_and_zsh_know_commands_and_flags(self):
        pages = {"": completions.flags_of(HELP), "pack": completions.flags_of(PACK)}
        fish = completions.fish("packer", pages)
        self.assertIn("complete -c packer -n __fish_use_subcommand -f -a 'pack'", fish)
        self.assertIn("-l format -x -a 'auto idx folder' -d 'Format of SOURCE.'", fish)
        self.assertIn("-l force -s f -f -d 'Replace DEST, even if it is full.'", fish)
        self.assertIn("-l labels -r -F -d", fish)
        self.assertTrue(completions.zsh("packer", pages).startswith("#compdef packer\n"))


if __name__ == "__main__":
    unittest.main()
