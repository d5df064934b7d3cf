"""`mtrun.launch` in programs that have no file, as in a notebook: results, failures, interruption, and nothing left behind.
It needs the programs in MT_BIN; tests/e2e/python_launch_test.cc runs it."""
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
from unittest import mock

import support
from mtrun import LaunchError, launch

BIN = os.environ["MT_BIN"]
PATIENCE = 200  # seconds, on a loaded machine
BEGIN = """
import mtrun, os, signal, sys, time

def say(word):
    with open(f"{word}_{os.environ['RANK']}", "a") as file:
        file.write(f"{os.getpid()} ")

def wait_for(*words):
    while not all(os.path.exists(f"{word}_{rank}") for word in words for rank in (0, 1)):
        time.sleep(0.01)
"""


class Caller:
    """A program that calls mtrun.launch, in a folder of its own, with a standard input that is a pipe."""

    def __init__(self, case, code):
        self.folder = case.folder
        environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "XDG_STATE_HOME": self.folder, "TMPDIR": case.temporary,
                       "PYTHONPATH": os.path.join(support.ROOT, "python"), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUSERBASE": self.folder}
        self.process = subprocess.Popen([sys.executable, "-c", BEGIN + textwrap.dedent(code)], cwd=self.folder, env=environment,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        case.addCleanup(self.process.kill)

    def end(self, send="", status=0):
        """Returns standard output and error."""
        out, err = self.process.communicate(send, timeout=PATIENCE)
        if self.process.returncode != status:
            raise AssertionError(f"status {self.process.returncode}:\n{out}{err}")
        return out, err

    def pids(self, word):
        """Waits until both workers have said the word; returns their pids."""
        end, paths = time.monotonic() + PATIENCE, [os.path.join(self.folder, f"{word}_{rank}") for rank in (0, 1)]
        while True:
            found = []
            for path in paths:
                if os.path.exists(path):
                    with open(path, encoding="ascii") as file:
                        found += file.read().split()
            if len(found) >= 2:
                return [int(pid) for pid in found]
            if time.monotonic() > end or self.process.poll() is not None:
                raise AssertionError(f"{word}: {self.end()}")
            time.sleep(0.01)


class LaunchTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="mtrun-launch-test-")
        self.addCleanup(folder.cleanup)
        self.folder, self.temporary = folder.name, os.path.join(folder.name, "tmp")
        os.mkdir(self.temporary)

    def assert_gone(self, pids):
        end = time.monotonic() + PATIENCE
        while left := [pid for pid in pids if os.path.exists(f"/proc/{pid}")]:
            self.assertLess(time.monotonic(), end, f"still there: {left}")
            time.sleep(0.01)

    def assert_nothing_left(self):
        self.assertEqual(os.listdir(self.temporary), [])

    def test_results_come_in_the_order_of_ranks(self):
        out, err = Caller(self, """
            import dataclasses
            SCALE = 10

            @dataclasses.dataclass
            class Result:
                rank: int
                value: object

            def train(start, *, more):
                print("said by", os.environ["RANK"])
                print("complained", file=sys.stderr)
                os.environ["SEEN_BY_CALLER"] = "no"
                return Result(int(os.environ["RANK"]), [start * SCALE + more, os.environ["WORLD_SIZE"], sys.stdin.read()])

            for result in mtrun.launch(train, 3, (4,), {"more": 2}):
                print(type(result) is Result, result.rank, result.value)
            print(mtrun.launch(lambda: os.environ.get("SEEN_BY_CALLER"), nproc=1), input())
            """).end("typed\n")
        for rank in range(3):
            self.assertIn(f"[default{rank}]:said by {rank}\n", out)
            self.assertIn(f"[default{rank}]:complained\n", err)
            self.assertIn(f"True {rank} [42, '3', '']\n", out)
        self.assertTrue(out.endswith("[None] typed\n"), out)
        self.assert_nothing_left()

    def test_output_is_written_to_what_stands_for_the_console(self):
        out, err = Caller(self, '''
            import contextlib, io

            def train():
                print("\u00fc" * 100_000)

            shown = io.StringIO()  # as in a notebook
            with contextlib.redirect_stdout(shown):
                mtrun.launch(train, 1)
            print(len(shown.getvalue()), set(shown.getvalue()) == set("\u00fc\\n"))
            ''').end()
        self.assertEqual(out, "100001 True\n")
        self.assertNotIn("Traceback", err)

    def test_failure_is_raised_with_the_workers_traceback(self):
        out, _ = Caller(self, """
            def helper():
                raise ValueError("no such layer")

            def train():
                if os.environ["RANK"] == "1":
                    helper()
                time.sleep(600)

            try:
                mtrun.launch(train)
            except mtrun.LaunchError as error:
                print(error.exit_status, error, sep="|")
            """).end()
        self.assertTrue(out.startswith("1|rank 1: ValueError: no such layer\n\nTraceback (most recent call last):\n"), out)
        self.assertIn("in train\n", out)
        self.assertIn("in helper\n", out)
        self.assertNotIn("launched.py", out)
        self.assert_nothing_left()

    def test_killed_worker_is_an_error_or_begins_again(self):
        out, _ = Caller(self, """
            def train():
                say("began")
                if os.environ["RANK"] == "1" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
                    wait_for("began")
                    os.kill(os.getpid(), signal.SIGKILL)
                return os.environ["TORCHELASTIC_RESTART_COUNT"]

            try:
                mtrun.launch(train)
            except mtrun.LaunchError as error:
                print(error.exit_status, error, sep="|")
            print(mtrun.launch(train, max_restarts=1))
            """).end()
        self.assertRegex(out, r"(?m)^137\|rank 1 .*: killed by SIGKILL")
        self.assertTrue(out.endswith("['1', '1']\n"), out)

    def test_worker_that_joins_keeps_its_process(self):
        out, _ = Caller(self, """
            def train():
                with mtrun.join() as job:
                    say("began")
                    if job.rank == 1 and job.number == 1:
                        wait_for("began")
                        os.kill(os.getpid(), signal.SIGKILL)
                    if job.number == 1:
                        job.next()
                    job.done(1)
                    return os.getpid()

            first, second = mtrun.launch(train, max_restarts=1)
            print("kept", [str(pid) for pid in (first, second)] == [open(f"began_{rank}").read().split()[-1] for rank in (0, 1)])
            print(len(open("began_0").read().split()), len(open("began_1").read().split()))
            """).end()
        self.assertTrue(out.endswith("kept True\n1 2\n"), out)

    def test_interrupt_stops_the_workers_and_is_raised(self):
        caller = Caller(self, """
            def train():
                try:
                    say("began")
                    time.sleep(600)
                except KeyboardInterrupt:
                    say("interrupted")
                    raise

            try:
                mtrun.launch(train)
            except KeyboardInterrupt:
                print("raised", flush=True)
            """)
        workers = caller.pids("began")
        caller.process.send_signal(signal.SIGINT)
        out, err = caller.end()
        self.assertEqual(out, "raised\n")
        self.assertNotIn("Traceback", err)
        self.assertEqual(sorted(caller.pids("interrupted")), sorted(workers))
        self.assert_gone(workers)
        self.assert_nothing_left()

    def test_second_interrupt_kills_workers_that_ignore_the_first(self):
        caller = Caller(self, """
            def train():
                signal.signal(signal.SIGINT, lambda *_: say("ignored"))
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                say("began")
                while True:
                    time.sleep(1)

            mtrun.launch(train)
            """)
        workers = caller.pids("began")
        caller.process.send_signal(signal.SIGINT)
        caller.pids("ignored")
        caller.process.send_signal(signal.SIGINT)
        caller.end(status=-signal.SIGINT)
        self.assert_gone(workers)
        self.assert_nothing_left()

    def test_workers_end_with_a_caller_that_is_killed(self):
        caller = Caller(self, """
            def train():
                say("began")
                time.sleep(600)

            mtrun.launch(train)
            """)
        workers = caller.pids("began")
        caller.process.kill()
        caller.end(status=-signal.SIGKILL)
        self.assert_gone(workers)

    def test_processes_that_a_worker_spawns_find_the_functions(self):
        out, _ = Caller(self, """
            import multiprocessing

            def double(x):
                return 2 * x if __name__ == "__mp_main__" else None

            def train():
                with multiprocessing.get_context("spawn").Pool(1) as pool:
                    return pool.map(double, [1, 2])

            print(mtrun.launch(train))
            """).end()
        self.assertEqual(out, "[[2, 4], [2, 4]]\n")

    def test_ends_of_other_kinds(self):
        out, _ = Caller(self, """
            import atexit, threading

            def leaves():
                atexit.register(say, "exit")
                threading.Thread(target=lambda: (time.sleep(0.2), say("thread"))).start()
                sys.exit()

            def fails():
                sys.exit(7)

            def returns_a_lock():
                return threading.Lock()

            print(mtrun.launch(leaves), mtrun.launch(lambda: os._exit(0)))
            for function in (fails, returns_a_lock):
                try:
                    mtrun.launch(function)
                except mtrun.LaunchError as error:
                    print(error.exit_status, str(error).splitlines()[0])
            """).end()
        self.assertIn("[None, None] [None, None]\n7 ", out)
        self.assertRegex(out, r"1 rank \d: TypeError: the result of the function cannot be sent to its caller: cannot pickle '_thread.lock'")
        for word in ("exit", "thread"):
            self.assertTrue(os.path.exists(os.path.join(self.folder, word + "_0")), word)

    def test_what_is_wrong_before_the_start_is_said_by_name(self):
        with mock.patch.dict(os.environ, PATH=BIN), \
                self.assertRaisesRegex(TypeError, "an argument cannot be sent to another process: cannot pickle 'generator'"):
            launch(print, 2, ((each for each in ()),))
        with self.assertRaisesRegex(ValueError, "nproc is 0; it must be at least 1"):
            launch(print, 0)
        out, _ = Caller(self, """
            os.environ["PATH"] = "/nowhere"
            try:
                mtrun.launch(print)
            except FileNotFoundError as error:
                print(error)
            """).end()
        self.assertIn("nor on PATH; install the wheel", out)

    def test_an_error_is_pickled_whole(self):
        error = pickle.loads(pickle.dumps(LaunchError("rank 1: no", 3)))
        self.assertEqual((str(error), error.exit_status), ("rank 1: no", 3))


if __name__ == "__main__":
    unittest.main()
