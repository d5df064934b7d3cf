#!/usr/bin/env python3
"""Tests of tools/background.sh: commands are waited for with their status, and none outlives the script. tools/check
runs it."""
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "background.sh")
HEAD = f"""set -uo pipefail
source {SCRIPT}
begun_dir=$PWD
trap end_all EXIT
trap 'exit 143' TERM
"""


class BackgroundTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def said(self, script):
        """Returns the script's output."""
        done = subprocess.run(["bash", "-c", HEAD + script], cwd=self.folder, capture_output=True, text=True, timeout=60,
                              check=False)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_each_has_its_status_whenever_it_is_asked_for(self):
        self.assertEqual(self.said("""
            begin first ahead bash -c 'exit 3'
            begin second now bash -c 'exit 4'
            finish second; echo $?
            begin third now true
            finish third; echo $?
            sleep 0.2
            finish first; echo $?
            has_begun first || echo none"""), ["4", "0", "3", "none"])

    def test_progress_of_an_ended_build_kills_nothing(self):
        """The watcher is killed right after its fork, while it may have the script's traps."""
        self.assertEqual(self.said(f"""
            cd {os.path.dirname(SCRIPT)}/.. && source tools/common.sh
            begin it now sleep 60
            for round in {{1..300}}; do watched /dev/null true; done
            pgrep -g "${{begun[it]}}" -x sleep >/dev/null && echo lives"""), ["lives"])

    def test_a_function_that_exits_ends_itself_alone(self):
        self.assertEqual(self.said("""
            fails() { exit 5; }
            begin it now fails
            finish it; echo $?"""), ["5"])

    def test_killed_step_fails(self):
        self.assertEqual(self.said("""
            begin it now sleep 1000
            kill -KILL -- "-${begun[it]}"
            finish it; echo $?"""), ["1"])

    def test_another_try_does_not_see_the_status_of_the_last_one(self):
        self.assertEqual(self.said("""
            begin it now true; finish it; echo $?
            begin it now bash -c 'exit 6'; finish it; echo $?"""), ["0", "6"])

    def test_a_signal_to_the_script_ends_all_that_it_has_begun(self):
        script = subprocess.Popen(["bash", "-c", HEAD + """
            begin ahead ahead sleep 1001
            begin now now bash -c 'sleep 1001 & echo $! >child; wait'
            finish now"""], cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        pid = self.child()
        script.send_signal(signal.SIGTERM)
        self.assertEqual(script.wait(20), 143)
        self.wait(lambda: not self.runs(pid))

    def test_a_signal_ends_what_has_just_begun(self):
        script = subprocess.Popen(["bash", "-c", HEAD + """
            just_begun() { until [ -s child ]; do sleep 0.01; done; exit 143; }
            set -T
            trap '[[ $BASH_COMMAND != begun* ]] || just_begun' DEBUG
            begin now now bash -c 'sleep 1001 & echo $! >child; wait'"""], cwd=self.folder, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL)
        self.assertEqual(script.wait(20), 143)
        pid = self.child()
        self.wait(lambda: not self.runs(pid))

    def child(self):
        """Returns the process that the script started."""
        path = os.path.join(self.folder, "child")
        self.wait(lambda: os.path.exists(path) and os.path.getsize(path) > 0)
        with open(path, encoding="ascii") as file:
            return int(file.read())

    def runs(self, pid):
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii") as file:
                return file.read().rpartition(")")[2].split()[0] != "Z"
        except OSError:
            return False

    def wait(self, holds):
        deadline = time.monotonic() + 20
        while not holds():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)


if __name__ == "__main__":
    unittest.main()
