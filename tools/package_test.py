#!/usr/bin/env python3
"""Installs, tries and removes packages. tools/check --package (in tools/test --full) runs it after `tools/package
wheel|tarball|deb` and a build of preset release. Tests without their requirements are skipped.

  tools/package_test.py [FOLDER_OF_PACKAGES] [-k PATTERN]"""
import glob
import os
import re
import sys
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "package.d"))
import trainer_names
import trial
from trial import CACHE, COMMIT, RELEASE, TOP, TORCH, environment, files_of, need_torch, package, run, text_of

CONFIGS = os.path.join(TOP, "configs")
TEMPLATES = {os.path.join(kind, name) for kind in ("slurm", "kubernetes", "systemd") for name in os.listdir(os.path.join(CONFIGS, kind))}


def templates_in(share):
    """Returns the templates in share/mtrun, without the other configurations."""
    found = files_of(share)
    return {name for name in found if name.split(os.sep)[0] not in ("configs", "tools", "python")}, {
        os.path.basename(name) for name in found if name.startswith("configs" + os.sep)}


class Venv(trial.Trying):
    """A Python environment of this machine with the wheel."""

    def setUp(self):
        super().setUp()
        self.wheel = package("mtrun-*.whl")
        self.venv = os.path.join(self.folder, "venv")
        run(sys.executable, "-m", "venv", self.venv)
        self.before = files_of(self.venv)
        run(self.bin("pip"), "install", "-q", "--no-index", "--no-deps", self.wheel)

    def bin(self, name):
        return os.path.join(self.venv, "bin", name)

    def inside(self, *parts):
        return os.path.join(glob.glob(os.path.join(self.venv, "lib", "python3*", "site-packages", "mtrun"))[0], *parts)

    def share(self, *parts):
        return os.path.join(self.venv, "share", "mtrun", *parts)

    def train(self, torch, **more):
        self.train_and_kill(self.bin("mtrun"), self.bin("mtdata"), self.share("tools", "verify_ledger"),
                            environment(MT_TORCH_DIR=torch, MTRUN_TOKEN="", XDG_STATE_HOME=self.folder, **more))


class WheelTest(Venv):
    def test_trains_and_survives_a_kill(self):
        need_torch()
        self.train(TORCH)

    def test_trainers_are_asked_before_any_worker_starts(self):
        need_torch()
        self.ask_trainers(self.bin("mtrun"), env=environment(MT_TORCH_DIR=TORCH, XDG_STATE_HOME=self.folder))

    def test_torch_of_the_same_environment_is_found(self):
        os.symlink(os.path.join(TORCH, "torch"), os.path.join(os.path.dirname(self.inside()), "torch"))
        for name in ("nvidia", "functorch"):
            if os.path.isdir(os.path.join(TORCH, name)):
                os.symlink(os.path.join(TORCH, name), os.path.join(os.path.dirname(self.inside()), name))
        self.assertIn("--learning_rate", run(self.bin("mtrun"), "--standalone", "--trainer", "vit", "--help",
                                             env=environment(XDG_STATE_HOME=self.folder)))

    def test_every_trainer_is_in_the_wheel(self):
        in_python = os.listdir(os.path.join(TOP, "python", "trainers"))
        self.assertEqual(sorted(os.listdir(self.inside("libexec", "mtrun", "trainers"))), sorted([*trainer_names.names(), *in_python]))

    def test_trainers_in_python_run_with_the_python_beside_mtrun(self):
        env = environment(MT_TORCH_DIR=TORCH, XDG_STATE_HOME=self.folder)
        self.assertIn("\ntimm        Trains a network of timm", run(self.bin("mtrun"), "--trainer", "list", env=env))
        said = run(self.bin("mtrun"), "--standalone", "--trainer", "timm", "--model", "resnet18", "--data", self.folder, expected=2, env=env)
        self.assertRegex(said, rf"the trainer timm needs PyTorch, torchvision and timm in the Python that mtrun uses \({re.escape(self.venv)}")

    def test_every_program_has_a_manual_page_and_completion(self):
        for name in ("mtrun", "mtrdzv", "mtdata", "mtreport") + trainer_names.names():
            self.assertTrue(os.path.exists(os.path.join(self.venv, "share", "man", "man1", f"{name}.1")), name)
        self.assertTrue(os.path.exists(os.path.join(self.venv, "share", "bash-completion", "completions", "cnnA")))

    def test_trainers_start_by_their_names(self):
        need_torch()
        for name in trainer_names.names():
            self.assertIn("--learning_rate", run(self.bin(name), "--help", env=environment(MT_TORCH_DIR=TORCH)))

    def test_another_torch_or_none_is_one_sentence(self):
        trainer = self.inside("libexec", "mtrun", "trainers", "cnnA")
        empty = os.path.join(self.folder, "none")
        os.mkdir(empty)
        other = os.path.join(self.folder, "other", "torch")
        os.makedirs(os.path.join(other, "lib"))
        for path, text in (("version.py", "__version__ = '2.9.1+cpu'\n"), ("lib/libtorch_cpu.so", "")):
            with open(os.path.join(other, path), "w", encoding="utf-8") as file:
                file.write(text)
        said = run(trainer, "--help", expected=2, env=environment(MT_TORCH_DIR=os.path.dirname(other)))
        self.assertRegex(said, r"^cnnA: the training programs need PyTorch 2\.11, \S+ has 2\.9\.1\+cpu: pip install [^\n]*\n$")
        said = run(trainer, "--help", expected=2, env=environment(MT_TORCH_DIR=empty))
        sentence = r"^cnnA: there is no torch/lib/libtorch_cpu\.so in \S+ \(MT_TORCH_DIR\)[^\n]*\n$"
        self.assertRegex(said, sentence)
        said = run(self.bin("mtrun"), "--standalone", "--nproc_per_node", "2", "--trainer", "cnnA", expected=2,
                   env=environment(MT_TORCH_DIR=empty, XDG_STATE_HOME=self.folder))
        self.assertRegex(said, sentence)

    def test_packs_the_same_bytes_as_the_source_build(self):
        built = os.path.join(RELEASE, "bin", "mtdata")
        if not os.path.exists(built):
            self.skipTest("there is no build/release/bin/mtdata")
        digests = set()
        for number, program in enumerate((built, self.bin("mtdata"))):
            data = os.path.join(self.folder, f"data{number}")
            run(program, "import", os.path.join(TOP, "tests", "testdata", "cifar10", "cifar10-2500.tar.xz"), data)
            digests.add(re.search(r'"digest": *"(\w+)"', text_of(os.path.join(data, "index.json"))).group(1))
        self.assertEqual(len(digests), 1)

    def test_the_package_is_imported(self):
        self.assertEqual(run(self.bin("python"), "-c", "import mtrun; print(mtrun.join({}).world_size)"), "1\n")

    def test_templates_are_where_the_documents_say(self):
        templates, configs = templates_in(self.share())
        self.assertEqual(templates, TEMPLATES)
        self.assertEqual(configs, {name for name in os.listdir(CONFIGS) if name.endswith(".yaml")})

    def test_nothing_remains_after_uninstall(self):
        run(self.bin("pip"), "uninstall", "-q", "-y", "mtrun")
        self.assertEqual(files_of(self.venv) - self.before, set())

    def test_programs_need_glibc_alone(self):
        for name in ("mtrun", "mtdata"):
            self.assertNotIn("not found", run("ldd", self.bin(name)))
            self.assertNotRegex(run("ldd", self.bin(name)), r"libgrpc|libprotobuf|libssl|libstdc")
        for name in ("mtrun", "mtrdzv", "mtdata", "mtreport"):  # mtrdzv is another name of mtrun
            self.assertRegex(run(self.bin(name), "--version"), rf"^{name} 0\.2\.0 {COMMIT}(, gRPC [\d.]+)?\)\n$")


class CudaWheelTest(Venv):
    """Trainers with CUDA beside those without: the ones that load are started. No GPU is used."""

    def setUp(self):
        super().setUp()
        if "mtrun/libexec/mtrun/trainer-cuda" not in zipfile.ZipFile(self.wheel).namelist():
            self.skipTest("no trainers with CUDA in the wheel: tools/check --cuda builds them")
        full = glob.glob(os.path.join(CACHE, "peers", "lib", "python3*", "site-packages"))
        if not full:
            self.skipTest("no Python with PyTorch here: tools/setup --peers")
        self.full = full[0]

    def test_the_version_says_which_one_starts(self):
        need_torch()
        trainer = self.inside("libexec", "mtrun", "trainers", "cnnA")
        for torch, with_cuda in ((self.full, " with CUDA"), (TORCH, "")):
            self.assertRegex(run(trainer, "--version", env=environment(MT_TORCH_DIR=torch)),
                             rf"^cnnA 0\.2\.0 {COMMIT}, LibTorch 2\.11\.\d+{with_cuda}\)\n$")

    def test_it_trains_without_a_gpu(self):
        self.train(self.full, CUDA_VISIBLE_DEVICES="")


class ReadmeTest(trial.Trying):
    """README's pip lines, unchanged, with stubs of other wheels; tools/package_roots_test.py has the real ones."""

    def stub(self, name, version):
        info = f"{name.replace('-', '_')}-{version}.dist-info"
        files = {"METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", "RECORD": "",
                 "WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
        with zipfile.ZipFile(os.path.join(self.folder, f"{name.replace('-', '_')}-{version}-py3-none-any.whl"), "w") as wheel:
            for file, text in files.items():
                wheel.writestr(f"{info}/{file}", text)

    def installed_by(self, line):
        """Returns {name: version} in a separate environment."""
        venv = os.path.join(self.folder, "venv")
        run(sys.executable, "-m", "venv", "--clear", venv)
        env = environment(PATH=os.path.join(venv, "bin") + ":" + os.environ["PATH"], PIP_NO_INDEX="1", PIP_FIND_LINKS=self.folder,
                          PIP_DISABLE_PIP_VERSION_CHECK="1")
        run("sh", "-ec", line, cwd=self.folder, env=env)
        found = dict(line.split("==") for line in run("pip", "list", "--format=freeze", env=env).splitlines())
        return {name: version for name, version in found.items() if name not in ("pip", "setuptools")}

    def test_each_line_installs_what_it_says(self):
        wheel = package("mtrun-*.whl")
        os.makedirs(os.path.join(self.folder, "build"))
        os.symlink(os.path.dirname(wheel), os.path.join(self.folder, "build", "packages"))
        cpu = {"nvidia-cuda-runtime": "13.0.96", "nvidia-cuda-cupti": "13.0.85"}
        for name, version in [*cpu.items(), *(("torch", f"2.{minor}.0") for minor in (10, 11, 12))]:
            self.stub(name, version)
        alone, trainers, processors = trial.readme_commands()[1]
        self.assertEqual(self.installed_by(alone), {"mtrun": "0.2.0"})
        self.assertEqual(self.installed_by(trainers), {"mtrun": "0.2.0", "torch": "2.11.0"})
        self.assertEqual(self.installed_by(processors), {"mtrun": "0.2.0", "torch": "2.11.0", **cpu})

    def test_the_wheels_for_processors_are_those_that_are_built_with(self):
        pins = re.findall(r"^([\w-]+==[\w.]+) ", text_of(os.path.join(TOP, "tools", "wheels", "cpu.txt")), re.M)
        line = trial.readme_commands()[1][2]
        self.assertIn("--no-deps", line)
        self.assertEqual(sorted(re.findall(r"[\w-]+==[\w.]+", line)), sorted(pins))


class TarballTest(trial.Trying):
    def test_unpacks_anywhere(self):
        run("tar", "xf", package("mtrun-*-x86_64.tar.xz"), "-C", self.folder)
        tree = glob.glob(os.path.join(self.folder, "mtrun-*"))[0]
        share = os.path.join(tree, "share", "mtrun")
        self.assertEqual(templates_in(share)[0], TEMPLATES)
        need_torch()
        mtrun, env = os.path.join(tree, "bin", "mtrun"), environment(MT_TORCH_DIR=TORCH, XDG_STATE_HOME=self.folder)
        self.ask_trainers(mtrun, env=env)
        for name in trainer_names.names():
            self.assertIn("--learning_rate", run(os.path.join(tree, "bin", name), "--help", env=env))
        self.assertIn("Trains a network of timm", run(mtrun, "--trainer", "timm", "--help", env=env))
        self.train_and_kill(mtrun, os.path.join(tree, "bin", "mtdata"), os.path.join(share, "tools", "verify_ledger"), env)


class DebTest(trial.Trying):
    def test_each_installs_its_program(self):
        for name in ("mtrun", "mtrdzv", "mtdata"):
            found = package(f"{name}_*.deb")
            self.assertIn("libc6", run("dpkg-deb", "-f", found, "Depends"))
            run("dpkg-deb", "-x", found, self.folder)
            self.assertIn(name, run(os.path.join(self.folder, "usr", "bin", name), "--help"))
            self.assertTrue(os.path.exists(os.path.join(self.folder, "usr", "share", "man", "man1", f"{name}.1")), name)
        self.assertEqual(templates_in(os.path.join(self.folder, "usr", "share", "mtrun"))[0], TEMPLATES)


class InstallTest(trial.Trying):
    """Tests cmake --install of the source build."""

    def test_the_prefix_can_be_moved_and_is_everybodys(self):
        if not os.path.exists(os.path.join(RELEASE, "libexec", "mtrun", "trainer")):
            self.skipTest("there is no build/release")
        first, moved = os.path.join(self.folder, "first"), os.path.join(self.folder, "moved")
        run("cmake", "--install", RELEASE, "--prefix", first)
        os.rename(first, moved)
        for name in ("mtrun", "mtreport") + trainer_names.names():
            self.assertTrue(os.path.exists(os.path.join(moved, "share", "man", "man1", f"{name}.1")), name)
        os.chmod(self.folder, 0o755)
        as_other = {"user": 65534, "group": 65534, "extra_groups": []} if os.getuid() == 0 else {}
        mtrun = os.path.join(moved, "bin", "mtrun")
        elsewhere = {"cwd": "/", "env": {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "TMPDIR": "/tmp"}, **as_other}
        self.assertIn("--learning_rate", run(mtrun, "--standalone", "--trainer", "cnnA", "--help", **elsewhere))
        self.ask_trainers(mtrun, **elsewhere)
        for name in trainer_names.names():
            self.assertIn("--learning_rate", run(os.path.join(moved, "bin", name), "--help", **elsewhere))
        needed = run("objdump", "-p", os.path.join(moved, "libexec", "mtrun", "trainer"))
        self.assertNotRegex(needed, r"R(UN)?PATH")
        self.assertEqual(templates_in(os.path.join(moved, "share", "mtrun"))[0], TEMPLATES)


if __name__ == "__main__":
    trial.main()
