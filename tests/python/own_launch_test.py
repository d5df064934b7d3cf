"""Variables of an mtrun that are inherited by processes which are not its workers."""
import os
import subprocess
import sys
import tempfile
import unittest

import support
from mtrun import join
from mtrun.own_launch import own_launch
from support import Agent, assignment

WORKER = {"MTRUN_SOCKET": "@s", "MTRUN_STEP": "7.0", "MTRUN_WORKER": "0/4 job", "MTRUN_LEASE": "23",
          "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "RANK": "0", "WORLD_SIZE": "4", "TORCHELASTIC_RUN_ID": "job",
          "MASTER_ADDR": "n1", "MASTER_PORT": "4000", "HOME": "/h"}
STRANGERS = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.bind('\\0' + sys.argv[1]); s.listen(); " \
            "print('up', flush=True); sys.stdin.read()"
GRANDCHILD = ["sh", "-c", '"$@"; true', "sh"]


class OwnLaunchTest(unittest.TestCase):
    def kept(self, above=True, **changes):
        environment = {name: value for name, value in {**WORKER, **changes}.items() if value is not None}
        return own_launch(environment, lambda path: above)

    def test_a_worker_keeps_its_variables(self):
        for above in (True, None):
            self.assertEqual(self.kept(above), WORKER)
        self.assertEqual(own_launch({"RANK": "1"}), {"RANK": "1"})
        of_older_mtrun = self.kept(MTRUN_STEP=None, MTRUN_WORKER=None)
        self.assertEqual(of_older_mtrun["RANK"], "0")

    def test_a_submitted_job_and_a_new_step_keep_nothing_of_the_worker(self):
        for changes in ({"SLURM_JOB_ID": "8"}, {"SLURM_STEP_ID": "1"}, {"SLURM_STEP_ID": None}, {"PBS_JOBID": "9"}):
            left = self.kept(**changes)
            self.assertEqual({name for name in left if not name.startswith(("SLURM", "PBS"))}, {"HOME"}, changes)

    def test_socket_of_a_process_that_is_no_ancestor_is_another_jobs(self):
        self.assertEqual(set(self.kept(above=False)), {"HOME", "SLURM_JOB_ID", "SLURM_STEP_ID"})

    def test_another_launcher_keeps_its_own_variables(self):
        for changes in ({"RANK": "1"}, {"WORLD_SIZE": "2"}, {"TORCHELASTIC_RUN_ID": "none"}):
            left = self.kept(**changes)
            self.assertNotIn("MTRUN_SOCKET", left)
            self.assertNotIn("MTRUN_LEASE", left)
            self.assertEqual((left["MASTER_ADDR"], left["RANK"]), ("n1", changes.get("RANK", "0")))
        self.assertEqual(self.kept(RANK=None, WORLD_SIZE=None)["HOME"], "/h")


class JoinTest(unittest.TestCase):
    def setUp(self):
        support.restore_signals(self)

    def test_socket_of_a_process_beside_this_one_is_not_joined(self):
        name = f"mtrun-stranger-{os.getpid()}"
        command = GRANDCHILD + [sys.executable, "-c", STRANGERS, name]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
            self.assertEqual(other.stdout.readline(), b"up\n")
            job = join({"MTRUN_SOCKET": "@" + name, "RANK": "1", "WORLD_SIZE": "2", "MTRUN_LEASE": "0"})
            self.assertEqual((job.elastic, job.rank, job.world_size), (False, 0, 1))
            other.stdin.close()

    def test_worker_of_a_launcher_below_mtrun_is_that_launchers(self):
        agent = Agent()
        self.addCleanup(agent.close)
        job = join(agent.environment(MTRUN_WORKER="0/1 none", RANK="1", WORLD_SIZE="2", TORCHELASTIC_RUN_ID="none",
                                     MTRUN_LEASE="23"))
        self.assertEqual((job.elastic, job.rank, job.world_size), (False, 1, 2))

    def test_child_of_a_worker_is_joined(self):
        agent = Agent()
        self.addCleanup(agent.close)
        code = "import sys; sys.path.insert(0, sys.argv[1]); import mtrun; print(mtrun.join().rank)"
        environment = {**os.environ, **agent.environment(MTRUN_WORKER="0/1 job", TORCHELASTIC_RUN_ID="job")}
        command = GRANDCHILD + [sys.executable, "-c", code, os.path.join(support.ROOT, "python")]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as worker:
            agent.accept()
            self.assertEqual(agent.heard()["type"], "hello")
            agent.say(assignment(1, rank=1))
            self.assertEqual(worker.communicate(timeout=20)[0], b"1\n")


class MainTest(unittest.TestCase):
    def test_module_runs_the_launcher_with_its_own_interpreter(self):
        with tempfile.TemporaryDirectory() as folder:
            launcher = os.path.join(folder, "mtrun")
            with open(launcher, "w") as file:
                file.write('#!/bin/sh\necho "$PYTHON_EXEC" "$@"\n')
            os.chmod(launcher, 0o755)
            environment = {"PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": os.path.join(support.ROOT, "python"),
                           "PYTHONUSERBASE": folder, "PYTHONDONTWRITEBYTECODE": "1"}
            command = [sys.executable, "-m", "mtrun", "--standalone", "train.py"]
            said = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout
            self.assertEqual(said.decode(), f"{sys.executable} --standalone train.py\n")
            os.remove(launcher)
            ended = subprocess.run(command, env={**environment, "PATH": "/nowhere"}, stderr=subprocess.PIPE, check=False)
            self.assertEqual(ended.returncode, 1)
            self.assertIn(b"nor on PATH; install the wheel", ended.stderr)


if __name__ == "__main__":
    unittest.main()
