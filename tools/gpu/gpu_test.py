"""Tests of tools/gpu: what a bundle brings, and what a day says where something is missing. The parts themselves are run by
tools/check --cuda."""
import contextlib
import gzip
import importlib.machinery
import importlib.util
import io
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import types
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))


def load(name, folder=HERE):
    loader = importlib.machinery.SourceFileLoader(name, os.path.join(folder, name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


sys.dont_write_bytecode = True
sys.path.insert(0, HERE)
bundle, day = load("bundle"), load("day")
import day_runs  # noqa: E402  # the one that day uses
BENCH = os.path.join(HERE, "..", "bench")
sys.path.insert(0, BENCH)
step, accuracy = load("step", BENCH), load("accuracy", BENCH)
import paired  # noqa: E402  # the one that step uses


class BundleTest(unittest.TestCase):
    def test_brings_all_but_what_every_linux_has_and_libtorch(self):
        listing = """\
\tlinux-vdso.so.1 (0x00007ffc)
\tlibtorch_cpu.so => /cache/libtorch/torch/lib/libtorch_cpu.so (0x00007f)
\tlibcudart.so.13 => /cache/libtorch/torch/lib/../../nvidia/cu13/lib/libcudart.so.13 (0x00007f)
\tlibfmt.so.9 => /lib/x86_64-linux-gnu/libfmt.so.9 (0x00007f)
\tlibstdc++.so.6 => /lib/x86_64-linux-gnu/libstdc++.so.6 (0x00007f)
\tlibgcc_s.so.1 => /lib/x86_64-linux-gnu/libgcc_s.so.1 (0x00007f)
\tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f)
\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)
\t/lib64/ld-linux-x86-64.so.2 (0x00007f)
"""
        self.assertEqual(bundle.libraries(listing), ["/lib/x86_64-linux-gnu/libfmt.so.9"])

    def test_brings_nothing_that_does_not_start_on_ubuntu_22_04(self):
        listing = """\
Version definitions:
1 0x01 0x0865f4e6 libx.so.1
2 0x00 0x0297f841 GLIBCXX_3.4.31

Version References:
  required from libc.so.6:
    0x069691b4 0x00 34 GLIBC_2.34
    0x06969185 0x00 05 GLIBC_2.9
  required from libstdc++.so.6:
    0x0297f840 0x00 42 GLIBCXX_3.4.30
"""
        bundle.check_age("libx.so.1", listing)
        with self.assertRaisesRegex(SystemExit, "libx.so.1 needs GLIBC 2.36, and Ubuntu 22.04 has 2.35"):
            bundle.check_age("libx.so.1", listing.replace("2.34", "2.36"))
        with self.assertRaisesRegex(SystemExit, "libx.so.1 needs GLIBCXX 3.4.31, and Ubuntu 22.04 has 3.4.30"):
            bundle.check_age("libx.so.1", listing.replace("3.4.30", "3.4.31"))
        with self.assertRaisesRegex(SystemExit, "libx.so.1 needs GLIBC_ABI_DT_RELR, which Ubuntu 22.04 has not"):
            bundle.check_age("libx.so.1", listing.replace("GLIBC_2.9", "GLIBC_ABI_DT_RELR"))

    def test_names_a_library_that_is_missing_here(self):
        with self.assertRaisesRegex(SystemExit, "libfmt.so.9 is not on this machine"):
            bundle.libraries("\tlibfmt.so.9 => not found\n")

    def test_names_the_tests(self):
        listing = "Running main() from gtest_main.cc\nGpuTest.\n  One\n  Two  # GetParam() = 2\nTwoGpusTest.\n  Three\n"
        self.assertEqual(bundle.tests_of(listing), ["GpuTest.One", "GpuTest.Two", "TwoGpusTest.Three"])

    def test_cuts_data_to_their_beginning(self):
        with tempfile.TemporaryDirectory() as folder:
            with gzip.open(os.path.join(folder, "labels.gz"), "wb") as file:
                file.write(bytes([0, 0, 8, 1]) + (9).to_bytes(4, "big") + bytes(range(9)))
            target = os.path.join(folder, "cut")
            os.makedirs(target)
            bundle.cut_idx(folder, target, "labels", 8, 1, 3)
            with open(os.path.join(target, "labels"), "rb") as file:
                self.assertEqual(file.read(), bytes([0, 0, 8, 1, 0, 0, 0, 3, 0, 1, 2]))


@contextlib.contextmanager
def a_day(folder, mtrun):
    """A day without a GPU whose mtrun is the script `mtrun`."""
    program = os.path.join(folder, "bin", "mtrun")
    os.makedirs(os.path.dirname(program))
    with open(program, "w", encoding="utf-8") as file:
        file.write(mtrun)
    os.chmod(program, 0o755)
    os.environ["MTRUN_DAY"] = str(os.getpid())
    args = types.SimpleNamespace(steps=1, stops=1, rounds=1, seconds=60, out=os.path.join(folder, "out", "day.json"))
    os.makedirs(os.path.dirname(args.out))
    made = day.Day(folder, {"folder": folder, "gpus": []}, args)
    try:
        yield made
    finally:
        day_runs.kill_all()
        del os.environ["MTRUN_DAY"]
        shutil.rmtree(made.scratch)


def write_metrics(made, run, lines):
    os.makedirs(os.path.join(made.scratch, run))
    with open(os.path.join(made.scratch, run, "metrics.jsonl"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def play(made, part, row=""):
    with contextlib.redirect_stdout(io.StringIO()) as said:
        return day.play(made, [(part, row)]), said.getvalue()


def kept(made):
    with open(made.args.out, encoding="utf-8") as file:
        return json.load(file)["rows"]


class DayTest(unittest.TestCase):
    def test_a_pytorch_that_does_not_fit_is_refused_in_one_sentence(self):
        def check(version, cuda="13.0", gpus=(), why="", listed=""):
            day_runs.check_torch({"version": version, "cuda": cuda, "gpus": gpus, "why": why}, listed)
        check("2.11.0+cu130", gpus=["H100"], listed="H100")
        check("2.11.0+cpu", cuda=None)
        with self.assertRaisesRegex(SystemExit, r"PyTorch 2\.12\.0 is here, and this bundle was built for 2\.11"):
            check("2.12.0")
        with self.assertRaisesRegex(SystemExit, "PyTorch 2.1.0 is here"):
            check("2.1.0")
        with self.assertRaisesRegex(SystemExit, "is for CUDA 12.8, and this bundle was built for 13"):
            check("2.11.0+cu128", cuda="12.8")
        with self.assertRaisesRegex(SystemExit, r"nvidia-smi knows of H100, but PyTorch 2.11.0 of no GPU \(driver too old\)"):
            check("2.11.0", why="driver too old", listed="H100")

    def test_error_without_pytorch_says_what_to_install(self):
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(os.path.join(folder, "torch"))
            with open(os.path.join(folder, "torch", "__init__.py"), "w", encoding="utf-8") as file:
                file.write("raise ImportError('no such thing')\n")
            with self.assertRaisesRegex(SystemExit, r"no such thing\): pip install torch==2\.11\.0"):
                day.find_torch(folder)

    def test_truncated_archive_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            whole, archive = os.path.join(folder, "whole.tar.xz"), os.path.join(folder, "half.tar.xz")
            with tarfile.open(whole, "w:xz") as file:
                file.add(__file__, "mtrun-gpu/file")
            with open(whole, "rb") as source, open(archive, "wb") as file:
                file.write(source.read()[:1000])
            with self.assertRaisesRegex(SystemExit, "half.tar.xz is not whole .*: copy it again"):
                day.unpack(archive, folder)

    def test_failed_and_skipped_rows_are_reported_and_the_rest_continues(self):
        def part(_):
            """a part"""
            yield "good", lambda: "fine"
            yield "bad", lambda: (_ for _ in ()).throw(day.Failure("status 3"))
            yield "absent", lambda: (_ for _ in ()).throw(day.Skip("no GPU"))
            yield "worse", lambda: {}["what nobody thought of"]
        with tempfile.TemporaryDirectory() as folder, a_day(folder, "") as made:
            rows, said = play(made, part)
        self.assertEqual([(row["result"], row["note"]) for row in rows],
                         [("passed", "fine"), ("FAILED", "status 3"), ("skipped", "no GPU"),
                          ("FAILED", "KeyError: 'what nobody thought of'")])
        self.assertIn("part         bad                FAILED", said)

    def test_rows_are_kept_as_they_come(self):
        def part(made):
            """a part"""
            yield "first", lambda: "done"
            yield "second", lambda: [row["what"] for row in kept(made)]
        with tempfile.TemporaryDirectory() as folder, a_day(folder, "") as made:
            rows, _ = play(made, part)
            self.assertEqual(rows[1]["note"], ["first"])
            self.assertEqual(kept(made), rows)

    def test_a_row_can_be_asked_for_alone(self):
        def part(_):
            """a part"""
            for name in ("vit", "vit --graph", "cnnA"):
                yield name, lambda: "fine"
        with tempfile.TemporaryDirectory() as folder, a_day(folder, "") as made:
            self.assertEqual([row["what"] for row in play(made, part, "vit")[0]], ["vit", "vit --graph"])
            with self.assertRaisesRegex(SystemExit, "there is no row vti, there are: vit, cnnA"):
                play(made, part, "vti")

    def test_every_trainer_of_the_bundle_has_its_rows(self):
        with tempfile.TemporaryDirectory() as folder, a_day(folder, "") as made:
            for name in ("mynet", "cnnA"):
                os.makedirs(made.path("libexec", "mtrun", "trainers", name))
            self.assertEqual([what for what, _ in day.programs(made)], ["cnnA", "cnnA --graph", "mynet", "mynet --graph"])

    def test_every_row_has_its_own_time_and_none_more_than_the_day(self):
        def part(made):
            """a part"""
            yield "first", lambda: setattr(made, "deadline", 0)
            yield "second", lambda: made.deadline
            yield "third", lambda: setattr(made, "end", time.monotonic())
            yield "fourth", lambda: "never run"
        with tempfile.TemporaryDirectory() as folder, a_day(folder, "") as made:
            rows, _ = play(made, part)
            self.assertGreater(rows[1]["note"], time.monotonic())
            self.assertEqual((rows[3]["result"], rows[3]["note"]), ("skipped", "the day's --seconds are over"))

    def test_timeout_ends_a_program_and_its_descendants(self):
        with tempfile.TemporaryDirectory() as folder, a_day(folder, "#!/bin/sh\nsetsid tail -f /dev/null\n") as made:
            made.deadline = time.monotonic()
            with self.assertRaisesRegex(day.Failure, "not done after"):
                made.run([os.path.join(folder, "bin", "mtrun")])
            self.assertEqual(day_runs.processes(b"MTRUN_DAY="), [])

    def test_libraries_that_the_machine_finds_by_its_environment_are_found(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, LD_LIBRARY_PATH="/driver/lib64"), \
                a_day(folder, "") as made:
            self.assertEqual(made.libraries["LD_LIBRARY_PATH"], f"{folder}/torch/lib:/driver/lib64")
            self.assertEqual(made.environment["MT_TORCH_DIR"], folder)

    def test_workers_that_share_a_gpu_are_nodes_of_their_own(self):
        with tempfile.TemporaryDirectory() as folder, a_day(folder, "") as made:
            self.assertEqual(made.launch(2)[1:4], ["--standalone", "--nproc_per_node", "2"])
            made.device, made.torch["gpus"] = "cuda", ["H100"]
            self.assertEqual(made.workers(), 2)
            shared = made.launch(made.workers())
            self.assertEqual(shared[1:6], [os.path.join(folder, "nodes.py"), "2", made.path("bin", "mtrun"), "--nnodes", "2"])
            with self.assertRaisesRegex(day.Skip, "needs 2 GPUs"):
                made.need_gpus(2)
            made.torch["gpus"] = ["H100", "H100", "H100"]
            self.assertEqual(made.launch(made.workers())[1:4], ["--standalone", "--nproc_per_node", "3"])
            made.need_gpus(2)

    def test_different_runs_are_distinguished(self):
        want = {1: 2.0, 2: 1.5}
        self.assertEqual(day.apart({1: 2.0, 2: 1.5 * (1 + 1e-9)}, want, 1e-7), "2 steps, losses within 1e-09")
        for got, why in (({1: 2.0}, "1 steps instead of 2"), ({1: 2.0, 3: 1.5}, "2 steps instead of 2"),
                         ({1: 2.0, 2: 1.6}, "step 2: loss 1.6 instead of 1.5, 1e-07 of it is allowed"),
                         ({1: math.nan, 2: 1.5}, "step 1: loss nan instead of 2"),
                         ({1: 2.0, 2: math.nan}, "step 2: loss nan instead of 1.5")):
            with self.assertRaisesRegex(day.Failure, why):
                day.apart(got, want, 1e-7)
        with self.assertRaisesRegex(day.Failure, "0 steps"):
            day.apart({}, {}, 1)

    def test_last_loss_of_a_redone_step_counts(self):
        with tempfile.TemporaryDirectory() as folder, a_day(folder, "") as made:
            write_metrics(made, "run", ['{"step": 1, "loss": 3}', '{"step": 2, "loss": 9}', '{"step": 3, "loss": 9}', '{"rewind": 2}',
                                        '{"step": 2, "loss": 2}'])
            self.assertEqual(made.losses("run"), {1: 3, 2: 2})

    def test_tests_have_rows_of_their_own(self):
        with tempfile.TemporaryDirectory() as folder, a_day(folder, "") as made:
            with open(os.path.join(folder, "bundle.json"), "w", encoding="utf-8") as file:
                json.dump({"gpu_tests": ["GpuTest.One", "GpuTest.Two"]}, file)
            program = os.path.join(folder, "tests", "gpu_test")
            os.makedirs(os.path.dirname(program))
            with open(program, "w", encoding="utf-8") as file:
                file.write("""#!/bin/sh
case "$1" in
  *One) echo "[       OK ] GpuTest.One (12 ms)" ;;
  *) echo "needs 1 GPU, 0 usable here"; echo "[  SKIPPED ] GpuTest.Two (0 ms)" ;;
esac
""")
            os.chmod(program, 0o755)
            made.variant = "cuda"
            rows, _ = play(made, day.gpu_test)
        self.assertEqual([(row["what"], row["result"], row["note"]) for row in rows],
                         [("GpuTest.One", "passed", "12 ms"), ("GpuTest.Two", "skipped", "needs 1 GPU, 0 usable here")])

    def test_errors_that_the_sanitizer_finds_fail(self):
        found = """#!/bin/sh
case "$*" in
  *"--error-exitcode 1"*) echo "========= ERROR SUMMARY: 2 errors"; exit 1 ;;
  *) echo "========= ERROR SUMMARY: 2 errors" ;;
esac
"""
        with tempfile.TemporaryDirectory() as folder, a_day(folder, found) as made:
            made.device = "cuda"
            with mock.patch.object(day.shutil, "which", lambda _: os.path.join(folder, "bin", "mtrun")):
                rows, _ = play(made, day.sanitizer)
        self.assertEqual(rows[0]["result"], "FAILED")
        self.assertIn("ERROR SUMMARY: 2 errors", rows[0]["note"])

    def test_output_of_programs_is_kept(self):
        with tempfile.TemporaryDirectory() as folder, a_day(folder, "#!/bin/sh\necho \"$@\"\nexit $1\n") as made:
            program = os.path.join(folder, "bin", "mtrun")
            self.assertEqual(made.run([program, "0", "first"])[0], "0 first\n")
            with self.assertRaisesRegex(day.Failure, r"status 3 after \d+ s: 3 second"):
                made.run([program, "3", "second"])
            with open(os.path.join(folder, "out", "day.log"), encoding="utf-8") as file:
                self.assertEqual(file.read(), f"== {program} 0 first\n0 first\n== {program} 3 second\n3 second\n")

    def test_a_job_whose_workers_are_stopped_has_no_end_of_its_own_and_none_after_its_part(self):
        def break_off(_day, job, _run, _refused):
            jobs.append(job)
            raise KeyError("what nobody thought of")
        jobs, stop_workers = [], day.stop_workers
        with tempfile.TemporaryDirectory() as folder, a_day(folder, "#!/bin/sh\nexec tail -f /dev/null\n") as made:
            day.stop_workers = break_off
            try:
                rows, _ = play(made, day.commit_rule)
            finally:
                day.stop_workers = stop_workers
            self.assertEqual(rows[0]["result"], "FAILED")
            self.assertEqual(jobs[0].returncode, -signal.SIGKILL)
            self.assertIn("--epochs 1000000", " ".join(jobs[0].args))

    def test_a_job_that_takes_no_step_is_not_one_whose_workers_were_stopped(self):
        with tempfile.TemporaryDirectory() as folder, a_day(folder, "#!/bin/sh\nexec tail -f /dev/null\n") as made:
            made.end = time.monotonic() + day.AFTER_STOPS
            rows, _ = play(made, day.commit_rule)
        self.assertEqual((rows[0]["result"], rows[0]["note"]), ("FAILED", "nobody was stopped: the job took no step"))

    def test_stopped_worker_continues_if_the_target_has_ended(self):
        sent = []

        def kill(pid, number):
            sent.append((pid, number))
            if number == signal.SIGKILL:
                raise ProcessLookupError
        with tempfile.TemporaryDirectory() as folder, a_day(folder, "") as made:
            with open(os.path.join(folder, "ledger.jsonl"), "w", encoding="utf-8"), \
                    mock.patch.object(day, "trainers", lambda: [1, 2]), \
                    mock.patch.object(made, "deadline", time.monotonic() + day.AFTER_STOPS + 60), \
                    mock.patch.object(day.os, "kill", kill):
                counts = day.stop_workers(made, types.SimpleNamespace(poll=mock.Mock(side_effect=[None])), folder)
        worker = sent[0][0]
        self.assertEqual(sent, [(worker, signal.SIGSTOP), (3 - worker, signal.SIGKILL), (worker, signal.SIGCONT)])
        self.assertEqual(counts, (1, 0))

    def test_workers_are_stopped_until_a_stop_has_hit_a_sum(self):
        with tempfile.TemporaryDirectory() as folder, a_day(folder, "") as made:
            with open(os.path.join(folder, "ledger.jsonl"), "w", encoding="utf-8"), \
                    mock.patch.object(day, "trainers", lambda: [1]), \
                    mock.patch.object(day.os, "kill", lambda *_: None), \
                    mock.patch.object(day.time, "sleep", lambda _: None), \
                    mock.patch.object(made, "deadline", time.monotonic() + day.AFTER_STOPS + 600):
                job = types.SimpleNamespace(poll=lambda: None)
                stops = made.args.stops
                for answers, done in (([1], stops), ([0, 0, 1], stops + 2), ([0] * 10 * stops, day.PATIENCE * stops)):
                    answers = iter(answers)
                    self.assertEqual(day.stop_workers(made, job, folder, lambda answers=answers: next(answers)), (done, 0))

    def commit_rule_row(self, said, after):
        """Runs the row for a job with this output, whose second step's loss was 1.5; a single worker's was `after`."""
        def stop_workers(*_):
            while not os.path.exists(has_said):
                time.sleep(0.01)
            return 100, 10
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as beside:
            has_said = os.path.join(beside, "has_said")
            mtrun = f"#!/bin/sh\necho '{said}'\n: >'{has_said}'\nexec tail -f /dev/null\n"
            return self.commit_rule_row_of(mtrun, stop_workers, folder, after)

    @staticmethod
    def commit_rule_row_of(mtrun, stop_workers, folder, after):
        with a_day(folder, mtrun) as made, \
                mock.patch.object(day, "stop_workers", stop_workers), \
                mock.patch.object(made, "verify", lambda _: "exact"), \
                mock.patch.object(made, "trainer", lambda name, run, *_: write_metrics(
                    made, run, ['{"step": 1, "loss": 2}', f'{{"step": 2, "loss": {after}}}'])):
            write_metrics(made, "stops", ['{"step": 1, "loss": 2}', '{"step": 2, "loss": 1.5}'])
            rows, _ = play(made, day.commit_rule)
        return rows[0]["result"], rows[0]["note"]

    def test_the_commit_rule_is_shown_by_garbage_that_was_seen_and_not_applied(self):
        seen = "step 2: an aborted device had left 1e+06 instead of 3 in its sums, which were not applied"
        with open(os.path.join(HERE, "..", "..", "trainers", "step", "refused_sums.cc"), encoding="utf-8") as file:
            self.assertIn(day.REFUSED, file.read())
        self.assertEqual(self.commit_rule_row(seen, 1.5), (
            "passed", "100 stops, 10 kills; other sums than the step's seen 1 times, applied never: 2 steps, losses within 0; exact"))
        result, note = self.commit_rule_row(seen, 1.6)
        self.assertEqual(result, "FAILED")
        self.assertIn("step 2: loss 1.5 instead of 1.6", note)
        result, note = self.commit_rule_row("nothing", 1.5)
        self.assertEqual(result, "FAILED")
        self.assertIn("so this has shown nothing", note)

    def test_every_part_says_what_it_is(self):
        for part in day.PARTS:
            self.assertTrue(part.__doc__, part.__name__)


class NodesTest(unittest.TestCase):
    def start(self, folder, script, count=2):
        program = os.path.join(folder, "mtrun")
        with open(program, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n" + script)
        os.chmod(program, 0o755)
        return subprocess.Popen([sys.executable, os.path.join(HERE, "nodes.py"), str(count), program, "--trainer", "cnnA"],
                                stdout=subprocess.PIPE, text=True)

    def test_nodes_meet_at_one_endpoint_and_are_hosts_of_their_own(self):
        with tempfile.TemporaryDirectory() as folder:
            nodes = self.start(folder, 'echo "$NCCL_HOSTID $*"\n')
            said = sorted(nodes.communicate()[0].splitlines())
        self.assertEqual(nodes.returncode, 0)
        self.assertRegex(said[0], r"^node0 --rdzv_endpoint 127\.0\.0\.1:\d+ --trainer cnnA$")
        self.assertEqual(said[1], said[0].replace("node0", "node1"))

    def test_one_that_fails_is_the_status_of_all(self):
        with tempfile.TemporaryDirectory() as folder:
            nodes = self.start(folder, '[ "$NCCL_HOSTID" = node0 ] || exit 3\n')
            nodes.communicate()
        self.assertEqual(nodes.returncode, 3)

    def test_all_nodes_get_sigterm(self):
        with tempfile.TemporaryDirectory() as folder:
            nodes = self.start(folder, "trap 'echo told; exit 0' TERM\necho here\nwhile :; do sleep 0.01; done\n")
            self.assertEqual([nodes.stdout.readline() for _ in range(2)], ["here\n"] * 2)
            nodes.terminate()
            self.assertEqual(nodes.communicate()[0], "told\n" * 2)
        self.assertEqual(nodes.returncode, 0)


class BenchmarkTest(unittest.TestCase):
    def test_rounds_end_in_time_but_one_is_run(self):
        self.assertEqual(paired.interleave({"a": lambda: 1, "b": lambda: 2}, 3, until=0), {"a": [1], "b": [2]})
        self.assertEqual(paired.interleave({"a": lambda: 1}, 3), {"a": [1, 1, 1]})

    def test_work_that_is_not_the_same_ends_before_the_rounds(self):
        calls = []
        with self.assertRaises(SystemExit):
            paired.interleave({"a": lambda: calls.append(1)}, 3, warmed_up=sys.exit)
        self.assertEqual(calls, [1])

    def test_losses_that_are_none_are_not_those_of_the_same_work(self):
        def check(python, ours):
            step.check_same_work("cnnA", {"Python": [{"losses": python}], "cnnA": [{"losses": ours}]}, exact=True)
        check([2.0, 1.5], [2.0, 1.5001])
        check([2.0, 1.5, 1.4], [2.0])
        for python, ours, side in (([2.0, 1.5], [2.0, 1.6], "cnnA"), ([2.0, 1.5], [math.nan, 1.5], "cnnA"), ([2.0, 1.5], [2.0, math.nan], "cnnA"),
                                   ([2.0], [], "cnnA"), ([], [2.0], "Python"), ([math.nan], [math.nan], "Python")):
            with self.subTest(python=python, ours=ours), self.assertRaisesRegex(SystemExit, f"the losses of {side} differ"):
                check(python, ours)

    def test_a_report_is_that_of_one_commit(self):
        def program(name, version):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(f"#!/bin/sh\necho '{version}'\n")
            os.chmod(os.path.join(folder, name), 0o755)

        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "index.json"), "w", encoding="utf-8") as file:
                json.dump({"digest": "d"}, file)
            args, made = types.SimpleNamespace(data=folder, bin=folder, program="cnnB"), []
            for mtrun, trainer in (("a1", "a1"), ("a1", "a1"), ("b2", "a1"), ("b2", "b2")):
                program("mtrun", f"mtrun 0.2.0 (commit {mtrun})")
                program("cnnB", f"cnnB 0.2.0 (commit {trainer}, LibTorch 2.11.0)")
                made.append(accuracy.made_by(args, [os.path.join(folder, "mtrun"), "--standalone"]))
        self.assertEqual(made[0], made[1])
        self.assertEqual(len({json.dumps(each) for each in made}), 3)

    def test_rows_that_are_done_stay_where_a_later_one_fails(self):
        def compare(_args, _python, name, workers, _recipe):
            if name == "vit":
                raise SystemExit("vit: the losses differ")
            return {"program": name, "workers": workers}
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(step, "compare", compare), \
                mock.patch.object(paired, "peers_python", lambda: sys.executable):
            out = os.path.join(folder, "out.json")
            words = ["step", "--programs", "cnnB,vit", "--workers", "1", "--out", out]
            with mock.patch.object(sys, "argv", words), self.assertRaisesRegex(SystemExit, "the losses differ"):
                step.main()
            with open(out, encoding="utf-8") as file:
                self.assertEqual(json.load(file), [{"program": "cnnB", "workers": 1}])


if __name__ == "__main__":
    unittest.main()
