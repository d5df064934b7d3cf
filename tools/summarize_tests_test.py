#!/usr/bin/env python3
"""Tests of tools/summarize_tests: each way to pass although tests are missing. tools/check runs it."""
import importlib.machinery
import os
import re
import subprocess
import sys
import tempfile
import types
import unittest

sys.dont_write_bytecode = True
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "summarize_tests")
module = types.ModuleType("summarize_tests")
importlib.machinery.SourceFileLoader("summarize_tests", SCRIPT).exec_module(module)

PASS = '<testcase name="A.B" status="run"/>'
SKIP = ('<testcase name="A.C" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>'
        "<system-out>x.cc:1: Skipped\nneeds 1 GPU\n\n[  SKIPPED ] A.C</system-out></testcase>")


def tools_test():
    with open(os.path.join(os.path.dirname(SCRIPT), "test"), encoding="utf-8") as file:
        return file.read()


class SummarizeTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.write("expected", "release\n")
        self.write("parts", "release\n")

    def write(self, name, text):
        path = os.path.join(self.folder.name, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def ctest(self, cases, status="0", preset="release"):
        self.write(preset + ".xml", f"<testsuite>{cases}</testsuite>")
        self.write(preset + ".status", status)

    def ends(self, summary, status, **options):
        lines, got = module.summarize(self.folder.name, **options)
        self.assertEqual((lines[-1], got), (summary, status), "\n".join(lines))
        return "\n".join(lines)

    def test_passes(self):
        self.ctest(PASS)
        self.ends("1 passed, 0 failed, 0 skipped", 0)

    def test_a_failure_shows_its_output(self):
        self.ctest(PASS + '<testcase name="A.D" status="fail"><failure/><system-out>why it fails</system-out></testcase>', "8")
        self.assertIn("why it fails", self.ends("1 passed, 1 failed, 0 skipped", 1))

    def test_a_preset_without_results_fails(self):
        self.write("expected", "release\ndev\n")
        self.ctest(PASS)
        self.assertIn("dev: all: ctest left no results", self.ends("1 passed, 1 failed, 0 skipped", 1))

    def test_results_that_end_in_the_middle_fail(self):
        self.write("release.xml", "<testsuite><testcase name=")
        self.ends("0 passed, 1 failed, 0 skipped", 1)

    def test_a_status_that_no_case_explains_fails(self):
        self.ctest(PASS, "8")
        self.assertIn("ctest ended with status 8", self.ends("1 passed, 1 failed, 0 skipped", 1))

    def test_a_missing_status_fails(self):
        self.write("release.xml", f"<testsuite>{PASS}</testsuite>")
        self.ends("1 passed, 1 failed, 0 skipped", 1)

    def test_fewer_cases_than_the_floor_fail(self):
        self.ctest(PASS)
        self.ends("1 passed, 0 failed, 0 skipped", 0, floor={"release": 1})
        self.assertIn("at least 2", self.ends("1 passed, 1 failed, 0 skipped", 1, floor={"release": 2}))

    def test_a_step_that_did_less_than_the_floor_fails(self):
        self.ctest(PASS)
        self.write("fuzz.ok", "")
        for count in (None, "", "23"):
            if count is not None:
                self.write("fuzz.count", count)
            self.assertIn("FAILED   fuzz: all: ", self.ends("2 passed, 1 failed, 0 skipped", 1, floor={"release": 1, "fuzz": 24}))
        self.write("fuzz.count", "24\n")
        self.ends("2 passed, 0 failed, 0 skipped", 0, floor={"release": 1, "fuzz": 24})
        self.ends("2 passed, 0 failed, 0 skipped", 0, floor={"release": 1, "cuda": 20})

    def test_each_kind_of_run_has_floors_of_its_own(self):
        path = self.write("floor.json", '{"normal": {"dev": 1}, "full": {"dev": 2, "fuzz": 3}, "quick": {"check": 4}}')
        self.assertEqual(module.read_floor(path, "normal"), {"dev": 1})
        self.assertEqual(module.read_floor(path, "full"), {"dev": 2, "fuzz": 3})
        self.assertEqual(module.read_floor(path, "quick"), {"check": 4})

    def test_each_part_of_a_run_has_a_floor(self):
        path = os.path.join(os.path.dirname(SCRIPT), "test_floor.json")
        parts = dict(re.findall(r'^  (\w+)\) of_mode="(.*)" ;;$', tools_test(), re.M))
        self.assertEqual(set(parts), {"quick", "normal", "full"})
        for mode, names in parts.items():
            self.assertEqual(set(module.read_floor(path, mode)), set(names.split()), mode)

    def test_a_part_that_was_to_run_and_left_nothing_fails(self):
        self.ctest(PASS)
        self.write("parts", "check\nrelease\ndev\nfuzz\n")
        self.write("check.ok", "")
        self.write("check.count", "1")
        floor = {"check": 1, "release": 1, "dev": 1, "fuzz": 1}
        said = self.ends("2 passed, 2 failed, 0 skipped", 1, floor=floor)
        self.assertIn("FAILED   dev: all: left no results", said)
        self.assertIn("FAILED   fuzz: all: left no results", said)
        self.ends("2 passed, 0 failed, 0 skipped", 0)
        self.write("fuzz.failed", "no compiler")  # reported, like a build
        self.write("build-dev.failed", "no compiler")
        self.write("expected", "release\ndev\n")
        self.ends("2 passed, 2 failed, 0 skipped", 1, floor=floor)

    def test_a_part_without_a_floor_fails(self):
        self.ctest(PASS)
        self.assertIn("FAILED   release: all: has no floor", self.ends("1 passed, 1 failed, 0 skipped", 1, floor={"dev": 1}))

    def test_missing_list_of_parts_fails(self):
        self.ctest(PASS)
        os.remove(os.path.join(self.folder.name, "parts"))
        self.assertIn("no list of parts", self.ends("1 passed, 1 failed, 0 skipped", 1, floor={"release": 1}))
        self.ends("1 passed, 0 failed, 0 skipped", 0)

    def step(self, *ctests, count="5"):
        """A step that ran ctest once or more in its own build."""
        self.ctest(PASS)
        self.write("cuda.ok", "")
        self.write("cuda.count", count)
        for number, cases in enumerate(ctests, 1):
            self.write(f"cuda-{number}.xml", f"<testsuite>{cases}</testsuite>")

    def test_skipped_cases_of_a_step_lower_its_floor(self):
        self.step(SKIP + PASS, PASS)
        skips = self.write("skips", "always: needs \\d+ GPU  # most have none\n")
        said = self.ends("4 passed, 0 failed, 1 skipped", 0, skips=skips, floor={"release": 1, "cuda": 7})
        self.assertIn("skipped  cuda: A.C: needs 1 GPU", said)
        self.assertIn("ran      cuda: 3 cases", said)
        self.assertIn("FAILED   cuda: all: 7 cases, at least 8", self.ends("4 passed, 1 failed, 1 skipped", 1, floor={"release": 1, "cuda": 8}))

    def test_skipped_cases_of_a_step_need_a_line_in_the_list(self):
        self.step(SKIP)
        self.ends("2 passed, 0 failed, 1 skipped", 0)
        self.assertIn("cuda: A.C: skipped, and tools/test_skips does not allow it",
                      self.ends("2 passed, 1 failed, 0 skipped", 1, skips=self.write("none", "# nothing\n")))

    def test_cases_of_a_step_s_unit_binary_are_counted(self):
        self.step('<testcase name="x_test" status="run"/>')
        self.write("cuda.d/x_test.xml", '<testsuites><testcase classname="X" name="A" status="run"/>'
                   '<testcase classname="X" name="C" status="run"><skipped message="x.cc:1&#x0A;no GPU"/></testcase></testsuites>')
        self.assertIn("cuda: X.C: no GPU", self.ends("3 passed, 0 failed, 1 skipped", 0, floor={"release": 1, "cuda": 6}))

    def test_a_step_whose_ctest_left_half_a_file_fails(self):
        self.step(PASS)
        self.write("cuda-2.xml", "<testsuite><testcase name=")
        self.assertIn("FAILED   cuda: all: ctest left no results", self.ends("3 passed, 1 failed, 0 skipped", 1))

    def test_the_parts_of_a_step_are_counted_without_those_that_were_skipped(self):
        function = re.search(r"^count_parts\(\) \{.*?^\}", tools_test(), re.M | re.S).group(0)
        log = self.write("log", "ok    one\nok    two\nokay\nskip  three: needs root\nRan 15 tests in 75.1s\n\nOK\nRan 1 test in 2s\n\n"
                         "OK (skipped=1)\nRan 9 tests in 2s\n\nOK (expected failures=1, skipped=2)\n"
                         "100% tests passed, 0 tests failed out of 24\n")  # ctest's are in its own file
        done = subprocess.run(["bash", "-c", f"{function}\ncount_parts {log}"], capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout, "24\n")

    def test_unbuilt_test_fails(self):
        self.ctest(PASS + '<testcase name="x_test_NOT_BUILT" status="notrun"><skipped message="Unable to find executable"/></testcase>')
        self.ends("1 passed, 1 failed, 0 skipped", 1)

    def test_unstarted_test_fails(self):
        self.ctest(PASS + '<testcase name="A.E" status="notrun"><skipped message="Unable to find executable"/></testcase>')
        self.assertIn("did not run", self.ends("1 passed, 1 failed, 0 skipped", 1))

    def test_skips_need_a_line_in_the_list(self):
        self.ctest(PASS + SKIP)
        self.ends("1 passed, 0 failed, 1 skipped", 0)
        empty = self.write("none", "# nothing\n")
        self.assertIn("A.C: skipped, and tools/test_skips does not allow it: needs 1 GPU",
                      self.ends("1 passed, 1 failed, 0 skipped", 1, skips=empty))
        usual = self.write("skips", "usual: needs \\d+ GPU  # no GPU in CI\n")
        self.ends("1 passed, 0 failed, 1 skipped", 0, skips=usual)
        self.ends("1 passed, 1 failed, 0 skipped", 1, skips=usual, full=True)

    def test_what_skipped_cases_need_is_a_line(self):
        self.write("release.xml", f"<testsuite>{PASS}{SKIP}{SKIP.replace('A.C', 'A.D')}</testsuite>")
        self.write("release.status", "0\n")
        for why, line in (("tools/setup --peers was not run", "2 of the skipped cases need what is not installed here: tools/setup --peers"),
                          ("most machines have none", None)):
            rules = self.write("skips", f"usual: needs \\d+ GPU  # {why}\n")
            lines, status = module.summarize(self.folder.name, skips=rules)
            self.assertEqual((status, lines[-1]), (0, "1 passed, 0 failed, 2 skipped"))
            self.assertEqual([each for each in lines if "not installed" in each], [line] if line else [])

    def test_disabled_case_does_not_pass(self):
        self.ctest(PASS + '<testcase name="A.F" status="disabled"><system-out>Disabled</system-out></testcase>')
        self.ends("1 passed, 0 failed, 1 skipped", 0)

    def test_cases_of_a_unit_binary_are_counted(self):
        self.ctest('<testcase name="x_test" status="run"/>')
        self.write("release.d/x_test.xml", '<testsuites><testsuite><testcase classname="X" name="A" status="run"/>'
                   '<testcase classname="X" name="B" status="run"/><testcase classname="X" name="Other" status="notrun"/>'
                   '<testcase classname="X" name="C" status="run" result="skipped"><skipped message="x.cc:1&#x0A;no GPU"/></testcase>'
                   "</testsuite></testsuites>")
        self.assertIn("X.C: no GPU", self.ends("2 passed, 0 failed, 1 skipped", 0))

    def test_a_failed_case_of_a_unit_binary_is_named(self):
        self.ctest('<testcase name="x_test" status="fail"><failure/></testcase>', "8")
        self.write("release.d/x_test.xml", '<testsuites><testcase classname="X" name="A" status="run">'
                   '<failure message="1 is not 2"/></testcase></testsuites>')
        self.assertIn("X.A\n    | 1 is not 2", self.ends("0 passed, 1 failed, 0 skipped", 1))

    def test_a_unit_binary_that_crashes_fails(self):
        for status, failure in (("run", ""), ("fail", "<failure/>")):
            self.ctest(f'<testcase name="x_test" status="{status}">{failure}<system-out>SIGSEGV</system-out></testcase>')
            self.assertIn("ended without a list of its cases\n    | SIGSEGV", self.ends("0 passed, 1 failed, 0 skipped", 1))

    def test_a_unit_binary_without_cases_fails(self):
        self.ctest('<testcase name="x_test" status="run"/>')
        self.write("release.d/x_test.xml", "<testsuites/>")
        self.ends("0 passed, 1 failed, 0 skipped", 1)

    def test_a_unit_binary_that_fails_after_its_cases_fails(self):
        self.ctest('<testcase name="x_test" status="fail"><failure/><system-out>leaks</system-out></testcase>', "8")
        self.write("release.d/x_test.xml", '<testsuites><testcase classname="X" name="A" status="run"/></testsuites>')
        self.assertIn("leaks", self.ends("1 passed, 1 failed, 0 skipped", 1))

    def test_marks_of_other_steps(self):
        self.ctest(PASS)
        self.write("check.ok", "")
        self.ends("2 passed, 0 failed, 0 skipped", 0)
        self.write("build-dev.failed", "no compiler")
        self.assertIn("no compiler", self.ends("2 passed, 1 failed, 0 skipped", 1))

    def test_omitted_part_of_a_step_needs_a_line_in_the_list(self):
        self.ctest(PASS)
        self.write("package.ok", "")
        self.write("package.skips", "a clean root: needs root\n")
        self.assertIn("skipped  package: a clean root: needs root", self.ends("2 passed, 0 failed, 1 skipped", 0))
        self.ends("2 passed, 1 failed, 0 skipped", 1, skips=self.write("allowed", "always: no GPU  # most have none\n"))

    def test_unknown_test_name_fails(self):
        self.ctest("")
        self.write("check.ok", "")
        self.ends("1 passed, 1 failed, 0 skipped", 1, some=True)
        self.ctest(PASS)
        self.ends("2 passed, 0 failed, 0 skipped", 0, some=True)

    def test_a_name_is_not_missed_where_nothing_was_to_run_or_to_be_built(self):
        self.write("expected", "")
        self.write("check.ok", "")
        self.ends("1 passed, 0 failed, 0 skipped", 0, some=True)
        self.write("build-release.failed", "no compiler")
        self.ends("1 passed, 1 failed, 0 skipped", 1, some=True)

    def test_no_passed_case_fails(self):
        self.ctest("")
        self.ends("0 passed, 0 failed, 0 skipped", 1)


if __name__ == "__main__":
    unittest.main()
