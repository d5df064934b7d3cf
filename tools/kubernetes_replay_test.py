#!/usr/bin/env python3
"""The manifests of configs/kubernetes replayed on this machine, with the real mtrun: each container's command, environment,
user, volumes, names, probes, hooks and signals, in namespaces. No cluster is asked. ctest runs it as kubernetes.replay.

  tools/kubernetes_replay_test.py --bin build/release/bin [-k PATTERN]"""
import concurrent.futures
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

sys.dont_write_bytecode = True
TOOLS = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [os.path.join(TOOLS, "kubernetes.d"), os.path.join(TOOLS, "chaos.d")]
import cluster
import controllers
import manifests

NAME = "kubernetes.replay"
TOYS = os.path.join(manifests.TOP, "tests", "support", "toys")
PATIENCE = 60
binaries = os.path.join(manifests.TOP, "build", "release", "bin")
PROGRAM = """import os, time
print("worker", *(f"{name}={os.environ[name]}" for name in ("RANK", "WORLD_SIZE", "GROUP_RANK")),
      "token" if "MTRUN_TOKEN" in os.environ else "secretless", flush=True)
time.sleep(0.2)
"""


def until(what, condition, patience=PATIENCE):
    deadline = time.monotonic() + patience
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(what() if callable(what) else what)
        time.sleep(0.05)


class Replay(unittest.TestCase):
    """A cluster of namespaces for each test, and an image."""

    MACHINES = 6

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="mtrun-kubernetes-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        os.chmod(self.folder, 0o755)
        token = subprocess.run([os.path.join(binaries, "mtrun"), "--new_token"], capture_output=True, text=True, check=True).stdout
        image = self.make_image()
        self.machines = cluster.Cluster(self.MACHINES)
        self.world = controllers.World(self.machines, self.folder, image, {"mtrun-token": {"token": token.strip()}})
        self.addCleanup(self.close)

    def close(self):
        self.machines.close()
        for process in self.world.processes:
            process.wait(PATIENCE)

    def make_image(self):
        """Makes the /opt/mtrun of the Containerfile, but with a trainer that does not need LibTorch."""
        image = os.path.join(self.folder, "image")
        trainers = os.path.join(image, "opt", "mtrun", "libexec", "mtrun", "trainers")
        os.makedirs(trainers)
        os.makedirs(os.path.join(image, "opt", "mtrun", "bin"))
        os.mkdir(os.path.join(image, "work"))
        shutil.copy(os.path.join(binaries, "mtrun"), os.path.join(image, "opt", "mtrun", "bin"))
        shutil.copy(os.path.join(TOYS, "pod_trainer.py"), os.path.join(trainers, "cnnA"))
        shutil.copytree(os.path.join(manifests.TOP, "python", "mtrun"), os.path.join(image, "opt", "mtrun", "python", "mtrun"))
        with open(os.path.join(image, "work", "train.py"), "w", encoding="utf-8") as file:
            file.write(PROGRAM)
        return image

    def logs(self, pods):
        return "\n".join(f"--- {pod.name}\n{pod.said()}" for pod in pods)


class TrainingJobTest(Replay):
    """Tests training-job.yaml."""

    def setUp(self):
        super().setUp()
        self.job = controllers.IndexedJob(self.world, manifests.of_kind("training-job.yaml", "Job"),
                                          manifests.of_kind("training-job.yaml", "Service"))
        os.makedirs(os.path.join(self.world.claim("data"), "cifar10"))
        self.all = []

    def start(self, *indexes):
        pods = [self.job.start(index) for index in indexes]
        self.all += pods
        return pods

    def said(self):
        return self.logs(self.all)

    def meet(self, world, pods=None):
        """Waits until all pods are ready and their newest generation has `world` workers."""
        for pod in pods or self.job.pods.values():
            until(lambda pod=pod: f"{pod.name} is not ready:\n{self.said()}", lambda pod=pod: pod.probe("readinessProbe"))
            until(lambda pod=pod: f"{pod.name} does not see {world} workers:\n{self.said()}",
                  lambda pod=pod: self.newest(pod) == world)

    @staticmethod
    def newest(pod):
        """Returns the number of workers in the last generation that this pod's workers have entered."""
        found = re.findall(r"generation (\d+): rank \d+ of (\d+) \.", pod.said())
        return int(max(found, key=lambda each: int(each[0]))[1]) if found else None

    def finish(self):
        with open(os.path.join(self.world.claim("runs"), "train", "finish"), "w", encoding="utf-8"):
            pass

    def saved(self, name):
        folder = os.path.join(self.world.claim("runs"), "train")
        return sorted(file for file in os.listdir(folder) if file.startswith(f"saved-{name}-"))

    def test_nodes_leave_and_join_as_parallelism_changes(self):
        self.start(*range(self.job.spec["parallelism"]))
        self.meet(8)
        for index in (3, 2):  # parallelism and completions to 2: the highest indexes are removed
            status = self.job.stop(index)
            self.assertEqual(status, 143, self.said())
            self.assertEqual(self.job.verdict(status), "Count")
            self.assertEqual(len(self.saved(f"train-{index}")), 2, "a worker was killed before it had saved")
        self.meet(4)
        self.start(2)
        self.meet(6)
        self.finish()
        for pod in self.job.pods.values():
            self.assertEqual(self.job.verdict(pod.wait(PATIENCE)), "Succeeded", self.said())

    def test_pods_wait_for_the_name_of_the_first(self):
        (early,) = self.start(1)
        until(self.said, lambda: "train-0.train" in early.said())
        time.sleep(0.5)
        self.assertIsNone(early.process.poll(), self.said())  # its startupProbe fails meanwhile, for at most 650 s
        self.start(0)
        until(self.said, lambda: early.probe("startupProbe"))
        self.meet(4)

    def test_a_pod_that_is_lost_is_replaced_and_joins_also_the_first(self):
        self.start(0, 1, 2)
        self.meet(6)
        lost = self.job.pods[0]
        lost.kill()
        self.assertEqual(self.job.verdict(lost.wait(PATIENCE)), "Count")
        others = [self.job.pods[1], self.job.pods[2]]
        self.meet(4, others)
        self.start(0)
        self.assertNotEqual(self.job.pods[0].address, lost.address)
        self.meet(6)

    def test_probes_distinguish_hung_and_participating_pods(self):
        (alone,) = self.start(0)
        until(self.said, lambda: alone.probe("startupProbe"))
        self.assertFalse(alone.probe("readinessProbe"), "a node that waits for others is ready")
        self.start(1)
        self.meet(4)
        agent = cluster.child(cluster.child(cluster.child(alone.first())))  # the script, mtrun, its guardian, the agent
        os.kill(agent, signal.SIGSTOP)
        self.assertFalse(alone.probe("livenessProbe"))
        os.kill(agent, signal.SIGCONT)
        until(self.said, lambda: alone.probe("livenessProbe"))

    def test_a_job_that_is_deleted_saves_everywhere(self):
        pods = self.start(0, 1)
        self.meet(4)
        status, said = pods[1].execute(["mtrun", "--status", "train-0.train:29400", "--token_file", "/etc/mtrun/token"], PATIENCE)
        self.assertEqual(status, 0, said)
        self.assertIn("train-1", said)
        with concurrent.futures.ThreadPoolExecutor() as kubelets:
            self.assertEqual(list(kubelets.map(lambda pod: pod.terminate(), pods)), [143, 143], self.said())
        self.assertEqual(len(self.saved("train-0") + self.saved("train-1")), 4)


class PyTorchJobTest(Replay):
    """Tests pytorch-job.yaml."""

    def setUp(self):
        super().setUp()
        self.document = manifests.of_kind("pytorch-job.yaml", "PyTorchJob")

    def run_job(self, expected):
        """Runs all pods, which must end as expected."""
        job = controllers.PyTorchJob(self.world, self.document)
        job.start()
        for pod in job.pods:
            self.assertEqual(pod.wait(PATIENCE), expected, self.logs(job.pods))
        return job.pods

    def runs(self):
        said = re.findall(r"worker RANK=(\d+) WORLD_SIZE=6 GROUP_RANK=(\d+) secretless", self.logs(self.run_job(0)))
        self.assertEqual(sorted(said), [(str(rank), str(rank // 2)) for rank in range(6)])

    def test_the_operators_variables_and_three_lines_are_enough(self):
        self.runs()

    def test_the_three_lines_are_those_that_mtrun_prints(self):
        import yaml
        containers = [template["spec"]["containers"][0] for template in manifests.templates(self.document).values()]
        for container in containers:
            del container["env"]
        said = self.run_job(1)[0].said()
        self.assertIn("to the container pytorch:\n", said)
        patch = yaml.safe_load(textwrap.dedent("\n".join(said.split("to the container pytorch:\n")[1].splitlines()[:3])))
        for container in containers:
            container.update(patch)
        self.assertEqual(self.document, manifests.of_kind("pytorch-job.yaml", "PyTorchJob"))
        self.runs()


def main():
    global binaries
    manifests.enter_environment(NAME)
    if os.geteuid() != 0:
        manifests.skip(NAME, "needs root")
    if "--bin" in sys.argv:
        at = sys.argv.index("--bin")
        binaries = os.path.realpath(sys.argv[at + 1])
        del sys.argv[at:at + 2]
    try:
        cluster.Cluster(1).close()
    except cluster.NoNetwork as error:
        manifests.skip(NAME, f"mounting is not allowed here: {error}")
    unittest.main()


if __name__ == "__main__":
    main()
