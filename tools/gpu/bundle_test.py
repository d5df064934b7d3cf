#!/usr/bin/env python3
"""Tests a bundle as on another machine: unpacked beside a separate Python environment, whose LibTorch its programs find
themselves. tools/check --cuda (in tools/test --full) runs it after tools/gpu/bundle.

  tools/gpu/bundle_test.py ARCHIVE [-k PATTERN]"""
import glob
import json
import os
import sys
import tarfile
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "..", "package.d")]
import trainer_names
import trial
from trial import CACHE, COMMIT, TORCH, environment, need_torch, run

MOST_MIB = 40
archive = ""


class BundleTest(trial.Trying):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        with tarfile.open(archive) as file:
            file.extractall(folder.name)
        cls.bundle = os.path.join(folder.name, "mtrun-gpu")

    def setUp(self):
        super().setUp()
        self.venv = os.path.join(self.folder, "venv")
        run(sys.executable, "-m", "venv", "--without-pip", self.venv)
        # Like `. venv/bin/activate`; the programs get no help from this machine's environment.
        self.env = environment(PATH=os.path.join(self.venv, "bin") + ":" + os.environ["PATH"], VIRTUAL_ENV=self.venv,
                               XDG_STATE_HOME=self.folder, CUDA_VISIBLE_DEVICES="")

    def install(self, packages):
        """Copies the wheels' files from the folder `packages` into the environment."""
        site = glob.glob(os.path.join(self.venv, "lib", "python3*", "site-packages"))[0]
        for name in ("torch", "nvidia"):
            os.symlink(os.path.join(packages, name), os.path.join(site, name))
        return site

    def program(self, name):
        return os.path.join(self.bundle, "libexec", "mtrun", "trainers", name)

    def train(self, *more):
        """Trains with two workers under mtrun; their losses must equal those of a single one."""
        losses = []
        flags = ["--data", os.path.join(self.bundle, "data"), "--max_steps", "6", "--global_batch", "32", "--batch_size", "16",
                 "--precision", "float64", "--eval_images", "100", *more]
        for name, command in (("two", [os.path.join(self.bundle, "bin", "mtrun"), "--standalone", "--nproc_per_node", "2", "--trainer",
                                       "cnnA"]),
                              ("one", [self.program("cnnA")])):
            folder = os.path.join(self.folder, name)
            run(*command, *flags, "--model_folder", folder, env=self.env)
            with open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8") as file:
                losses.append([line["loss"] for line in map(json.loads, file) if "step" in line and "loss" in line])
            run(sys.executable, os.path.join(self.bundle, "tools", "verify_ledger"), folder, "--partial", env=self.env)
        self.assertGreaterEqual(len(losses[1]), 6)
        self.assertEqual(len(losses[0]), len(losses[1]))
        for two, one in zip(*losses):
            self.assertAlmostEqual(two, one, places=9)

    def test_it_is_small(self):
        self.assertLessEqual(os.path.getsize(archive) / 2**20, MOST_MIB)

    def test_beside_the_wheels_for_processors_every_program_starts_and_they_train_on_the_cpu(self):
        """The packages of README: PyPI's torch with only the CUDA runtime of NVIDIA's libraries."""
        need_torch()
        self.install(TORCH)
        self.assertEqual(sorted(os.listdir(self.program(""))), sorted(trainer_names.names()))
        for name in trainer_names.names():
            self.assertRegex(run(self.program(name), "--version", env=self.env), rf"^{name} 0\.2\.0 {COMMIT}, LibTorch 2\.11\.\d+\)\n$")
        self.train()

    def test_beside_all_of_cuda_those_with_it_start_and_train_on_the_cpu_where_no_gpu_is(self):
        full = glob.glob(os.path.join(CACHE, "peers", "lib", "python3*", "site-packages"))
        if not full:
            self.skipTest("no Python with PyTorch here: tools/setup --peers")
        self.install(full[0])
        self.assertRegex(run(self.program("vit"), "--version", env=self.env), r", LibTorch 2\.11\.\d+ with CUDA\)\n$")
        self.train()

    def test_mt_torch_dir_comes_before_the_environment(self):
        need_torch()
        site = self.install(TORCH)
        self.env["MT_TORCH_DIR"] = self.folder
        self.assertRegex(run(self.program("cnnA"), "--version", env=self.env, expected=2),
                         r"^cnnA: there is no torch/lib/libtorch_cpu\.so in \S+ \(MT_TORCH_DIR\)[^\n]*\n$")
        self.env["MT_TORCH_DIR"] = site
        self.assertIn("LibTorch 2.11", run(self.program("cnnA"), "--version", env=self.env))

    def test_without_pytorch_or_with_another_one_a_sentence_says_so(self):
        self.assertRegex(run(self.program("cnnA"), "--version", env=self.env, expected=2),
                         r"^cnnA: the training programs need PyTorch 2\.11, and there is none: pip install [^\n]*\n$")
        other = os.path.join(self.folder, "other")
        os.makedirs(os.path.join(other, "torch", "lib"))
        os.makedirs(os.path.join(other, "nvidia"))
        for name, text in (("version.py", "__version__ = '2.12.0'\n"), ("__init__.py", ""), (os.path.join("lib", "libtorch_cpu.so"), "")):
            with open(os.path.join(other, "torch", name), "w", encoding="utf-8") as file:
                file.write(text)
        self.install(other)
        self.assertRegex(run(self.program("cnnA"), "--version", env=self.env, expected=2),
                         r"^cnnA: the training programs need PyTorch 2\.11, \S+ has 2\.12\.0: pip install [^\n]*\n$")


if __name__ == "__main__":
    if len(sys.argv) < 2 or not os.path.isfile(sys.argv[1]):
        raise SystemExit("tools/gpu/bundle_test.py: give the archive that tools/gpu/bundle has made")
    archive = os.path.realpath(sys.argv.pop(1))
    trial.main()
