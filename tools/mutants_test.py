#!/usr/bin/env python3
"""Tests of the faults that tools/mutants puts into code: which lines have one, and what they become."""
import os
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "mutants.d"))
import faults


def of(line):
    """Returns {kind: what the mutant does} of a line in a function."""
    return {fault.kind: fault.says for fault in faults.of_file("base/a.cc", f"int F() {{\n{line}\n}}\n")}


class FaultsTest(unittest.TestCase):
    def test_conditions_are_inverted_and_their_operators_shifted(self):
        self.assertEqual(of("  if (a < b) return Later();"), {"condition": "not (a < b)", "operator": "a <= b"})
        self.assertEqual(of("  if (Ends(a, ')') && b) {")["operator"], "Ends(a, ')') || b")
        self.assertEqual(of("  } else if (ready) {"), {"condition": "not (ready)"})

    def test_calls_results_and_ones(self):
        self.assertEqual(of("  folder.Sync();"), {"call": "without folder.Sync();"})
        self.assertEqual(of("  MT_RETURN_IF_ERROR(Write(a));"), {"call": "without MT_RETURN_IF_ERROR(Write(a));"})
        self.assertEqual(of("  return false;"), {"result": "return true;"})
        self.assertEqual(of("  at = size - 1;"), {"by one": "without - 1: at = size - 1;"})

    def test_lines_that_would_not_compile_or_not_matter_have_none(self):
        for line in ("  // if (a) b();", "  if (const auto a = F(); a.ok()) return a;", "  if constexpr (kA) return;", "  Widget widget(3);", "  MT_ASSIGN_OR_RETURN(a, F());",
                     "  return Call(1);", "  MT_CHECK(a);", "  for (int i = 0; i < 3; ++i) {", "  log::Info(a);", "constexpr int kA = 2 - 1;", "  case 3 + 1:"):
            self.assertEqual(of(line), {}, line)

    def test_continued_lines_have_none(self):
        self.assertEqual(of("  const int a =\n      Call();"), {})

    def test_the_same_seed_chooses_the_same_faults_evenly_and_one_of_a_line(self):
        text = "int F() {\n" + "".join(f"  if (a{i} < b) Call({i});\n" for i in range(50)) + "}\n"
        everything = [fault for path in ("base/a.cc", "web/b.cc", "launcher/core/c.cc") for fault in faults.of_file(path, text)]
        chosen = faults.chosen(everything, 30, "0")
        self.assertEqual(chosen, faults.chosen(list(reversed(everything)), 30, "0"))
        self.assertNotEqual(chosen, faults.chosen(everything, 30, "1"))
        self.assertEqual({path: sum(fault.path == path for fault in chosen) for path in ("base/a.cc", "web/b.cc", "launcher/core/c.cc")},
                         {"base/a.cc": 10, "web/b.cc": 10, "launcher/core/c.cc": 10})
        self.assertEqual(len({(fault.path, fault.line) for fault in chosen}), 30)


if __name__ == "__main__":
    unittest.main()
