#!/usr/bin/env python3
"""Tests of tools/record_terminal: a screen's contents after a program's output, their drawing, and the parsing of
scenes. tools/check runs it."""
import importlib.machinery
import os
import re
import sys
import types
import unittest
import xml.dom.minidom

sys.dont_write_bytecode = True
FOLDER = os.path.dirname(os.path.abspath(__file__))
module = types.ModuleType("record_terminal")
module.__file__ = os.path.join(FOLDER, "record_terminal")
importlib.machinery.SourceFileLoader("record_terminal", module.__file__).exec_module(module)
picture, Screen = module.picture, module.Screen


def shown(*writes, columns=20, rows=4):
    screen = Screen(columns, rows)
    for write in writes:
        screen.feed(write if isinstance(write, bytes) else write.encode())
    return ["".join(text for text, _ in row) for row in screen.shown()]


class ScreenTest(unittest.TestCase):
    def test_lines_and_overwriting(self):
        self.assertEqual(shown("one\r\ntwo\rT"), ["one", "Two", "", ""])

    def test_a_line_that_is_renewed_in_its_place(self):
        self.assertEqual(shown("step 10 of 20\r\x1b[Kstep 9"), ["step 9", "", "", ""])

    def test_a_full_screen_scrolls(self):
        self.assertEqual(shown("1\r\n2\r\n3\r\n4\r\n5"), ["2", "3", "4", "5"])

    def test_long_lines_wrap_when_more_comes(self):
        self.assertEqual(shown("abcde", columns=5), ["abcde", "", "", ""])
        self.assertEqual(shown("abcdef", columns=5), ["abcde", "f", "", ""])
        self.assertEqual(shown("abcde\r\nf", columns=5), ["abcde", "f", "", ""])

    def test_the_cursor_moves(self):
        self.assertEqual(shown("a\r\nb\x1b[Ax\x1b[2;4Hy\x1b[Gz\x1b[Cw"), ["ax", "z wy", "", ""])

    def test_erasing(self):
        self.assertEqual(shown("abc\r\ndef\x1b[1;2H\x1b[J"), ["a", "", "", ""])
        self.assertEqual(shown("abc\r\ndef\x1b[2J"), ["", "", "", ""])

    def test_sequences_and_characters_that_come_in_parts(self):
        self.assertEqual(shown(b"a\x1b", b"[3", b"1mb\xc3", b"\xa4"), ["ab\u00e4", "", "", ""])

    def test_titles_and_modes_are_no_text(self):
        self.assertEqual(shown("\x1b]0;title\x07a\x1b[?2004hb\x1b[?25l"), ["ab", "", "", ""])

    def test_colours(self):
        screen = Screen(20, 1)
        screen.feed(b"a\x1b[1;31mb\x1b[22mc\x1b[39md\x1b[92me\x1b[0mf")
        self.assertEqual(screen.shown()[0], (("a", (None, False)), ("b", (1, True)), ("c", (1, False)), ("d", (None, False)),
                                             ("e", (10, False)), ("f", (None, False))))


class PictureTest(unittest.TestCase):
    ROW, OTHER = (("first <&>", (None, False)),), (("second", (2, True)),)

    def test_versions_of_a_row(self):
        self.assertEqual(picture.versions([(0, [()]), (1, [self.ROW]), (3, [self.OTHER])], 5),
                         [(0, self.ROW, 1, 3), (0, self.OTHER, 3, 5)])

    def test_it_is_one_file_that_asks_for_nothing(self):
        text = picture.draw([("one", 2, [(0, [self.ROW]), (1, [self.OTHER])])], 20, 3, "A & B")
        document = xml.dom.minidom.parseString(text)
        self.assertEqual(document.getElementsByTagName("title")[0].firstChild.data, "A & B")
        self.assertEqual([span.firstChild.data for span in document.getElementsByTagName("tspan")], ["first <&>", "second"])
        self.assertEqual(re.findall(r"https?://[^\"]*|url\(|<script|<image", text), ["http://www.w3.org/2000/svg"])
        self.assertIn("prefers-color-scheme:dark", text)

    def test_without_animations_the_last_state_is_seen(self):
        text = picture.draw([("one", 1, [(0, [self.ROW]), (1, [self.OTHER])])], 20, 3, "x")
        hidden = re.findall(r'<text class="(k\d+(?: h)?)" [^>]*><tspan[^>]*>(\w+)', text)
        self.assertEqual([(kind.endswith(" h"), word) for kind, word in hidden], [(True, "first"), (False, "second")])


class SceneTest(unittest.TestCase):
    def test_steps(self):
        self.assertEqual(module.parse("# x\ncolumns 80\n\npane one 4 a b\none$ ls -l\none~ a$\none^C\npause 1\n"),
                         [(2, "columns", "80"), (4, "pane", "one 4 a b"), (5, ("one", "$"), "ls -l"), (6, ("one", "~"), "a$"),
                          (7, ("one", "^C"), ""), (8, "pause", "1")])

    def test_error_names_a_line_that_is_not_a_step(self):
        with self.assertRaisesRegex(ValueError, 'line 2: "wait x" is no step'):
            module.parse("columns 80\nwait x\n")

    def test_long_pauses_are_cut(self):
        shown_at = module.shortened([1, 2, 10, 11], 1.5)
        self.assertEqual([shown_at(at) for at in (1, 2, 10, 11)], [1, 2, 3.5, 4.5])

    def test_the_scene_of_the_documents(self):
        with open(os.path.join(FOLDER, "docs.d", "kill.scene"), encoding="utf-8") as file:
            steps = module.parse(file.read())
        panes = {argument.split()[0] for _, verb, argument in steps if verb == "pane"}
        self.assertEqual({verb[0] for _, verb, _ in steps if isinstance(verb, tuple)}, panes)


if __name__ == "__main__":
    unittest.main()
