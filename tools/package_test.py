#!/usr/bin/env python3
"""Packages as their users meet them: installed, tried, taken away. tools/check --package (in tools/test --full) runs it behind
`tools/package wheel|tarball|deb` and a build of preset release; a test without what it needs says so and is skipped.

  tools/package_test.py [FOLDER_OF_PACKAGES] [-k PATTERN]"""
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

TOP = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
RELEASE = os.path.join(TOP, "build", "release")
FASHION = "/usr/share/datasets/fashion-mnist"
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")), "mtrun")
TORCH = os.environ.get("MT_TORCH_DIR", os.path.join(CACHE, "libtorch-2.11.0"))
PATIENCE = 300

packages = os.path.join(TOP, "build", "packages")


def package(pattern):
    found = sorted(glob.glob(os.path.join(packages, pattern)))
    if not found:
        raise unittest.SkipTest(f"there is no {pattern} in {packages}: tools/package makes them")
    return found[-1]


def environment(**more):
    """Without what this machine's own build and torch would help with."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MT_", "MTRUN_", "PYTHON", "LD_"))}
    return {**kept, **more}


def run(*command, expected=0, **more):
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False, **more)
    if done.returncode != expected:
        raise AssertionError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def files_of(folder):
    return {os.path.relpath(os.path.join(parent, name), folder) for parent, _, names in os.walk(folder) for name in names
            if not name.endswith(".pyc")}


class Trying(unittest.TestCase):
    """A folder for each test, and what every package has to do."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def train_and_kill(self, mtrun, mtdata, verify, env):
        """Two workers on Fashion-MNIST, one of which is killed: the run ends well and its ledger is exact."""
        data, model = os.path.join(self.folder, "data"), os.path.join(self.folder, "run")
        run(mtdata, "import", FASHION, data, env=env)
        command = [mtrun, "--standalone", "--nproc_per_node", "2", "--max_restarts", "3", "--trainer", "cnnA", "--data", data,
                   "--model_folder", model, "--epochs", "2", "--batch_size", "32", "--global_batch", "128", "--threads", "1"]
        log = os.path.join(self.folder, "log")
        with open(log, "wb") as out:
            running = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=env, cwd=self.folder)
        try:
            self.kill_a_worker(running, model)
            self.assertEqual(running.wait(PATIENCE), 0, text_of(log))
        finally:
            if running.poll() is None:
                running.kill()
        self.assertIn("killed by SIGKILL", text_of(log))
        self.assertIn("every sample exactly once", run(sys.executable, verify, model))

    def kill_a_worker(self, running, model):
        """Once steps are recorded."""
        metrics, deadline = os.path.join(model, "metrics.jsonl"), time.monotonic() + PATIENCE
        while not (os.path.exists(metrics) and os.path.getsize(metrics) > 2000):
            self.assertIsNone(running.poll())
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        workers = [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and self.is_worker(pid, model)]
        self.assertEqual(len(workers), 2)
        os.kill(max(workers), signal.SIGKILL)

    @staticmethod
    def is_worker(pid, model):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().decode().split("\0")
        except OSError:
            return False
        return os.path.basename(words[0]) in ("cnnA", "trainer") and model in words


class WheelTest(Trying):
    def setUp(self):
        super().setUp()
        wheel = package("mtrun-*.whl")
        self.venv = os.path.join(self.folder, "venv")
        run(sys.executable, "-m", "venv", self.venv)
        self.before = files_of(self.venv)
        run(self.bin("pip"), "install", "-q", "--no-index", "--no-deps", wheel)

    def bin(self, name):
        return os.path.join(self.venv, "bin", name)

    def inside(self, *parts):
        return os.path.join(glob.glob(os.path.join(self.venv, "lib", "python3*", "site-packages", "mtrun"))[0], *parts)

    def test_trains_and_survives_a_kill(self):
        if not os.path.exists(os.path.join(TORCH, "torch", "lib", "libtorch_cpu.so")):
            self.skipTest("there is no LibTorch here: tools/setup")
        self.train_and_kill(self.bin("mtrun"), self.bin("mtdata"), self.inside("share", "tools", "verify_ledger"),
                            environment(MT_TORCH_DIR=TORCH, MTRUN_TOKEN="", XDG_STATE_HOME=self.folder))

    def test_torch_of_the_same_environment_is_found(self):
        os.symlink(os.path.join(TORCH, "torch"), os.path.join(os.path.dirname(self.inside()), "torch"))
        for name in ("nvidia", "functorch"):
            if os.path.isdir(os.path.join(TORCH, name)):
                os.symlink(os.path.join(TORCH, name), os.path.join(os.path.dirname(self.inside()), name))
        self.assertIn("--learning_rate", run(self.bin("mtrun"), "--standalone", "--trainer", "vit", "--help",
                                             env=environment(XDG_STATE_HOME=self.folder)))

    def test_another_torch_or_none_is_said_in_one_sentence(self):
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
        self.assertRegex(said, r"^cnnA: there is no torch/lib/libtorch_cpu\.so in \S+ \(MT_TORCH_DIR\)[^\n]*\n$")

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

    def test_nothing_is_left_behind(self):
        run(self.bin("pip"), "uninstall", "-q", "-y", "mtrun")
        self.assertEqual(files_of(self.venv) - self.before, set())

    def test_programs_need_glibc_alone(self):
        for name in ("mtrun", "mtdata"):
            self.assertNotIn("not found", run("ldd", self.bin(name)))
            self.assertNotRegex(run("ldd", self.bin(name)), r"libgrpc|libprotobuf|libssl|libstdc")
        for name in ("mtrun", "mtrdzv", "mtdata"):  # mtrdzv is mtrun by another name
            self.assertRegex(run(self.bin(name), "--version"), name + r" 0\.1\.0")


class TarballTest(Trying):
    def test_unpacks_anywhere(self):
        run("tar", "xf", package("mtrun-*-x86_64.tar.xz"), "-C", self.folder)
        tree = glob.glob(os.path.join(self.folder, "mtrun-*"))[0]
        if not os.path.exists(os.path.join(TORCH, "torch", "lib", "libtorch_cpu.so")):
            self.skipTest("there is no LibTorch here: tools/setup")
        self.train_and_kill(os.path.join(tree, "bin", "mtrun"), os.path.join(tree, "bin", "mtdata"),
                            os.path.join(TOP, "tools", "verify_ledger"),
                            environment(MT_TORCH_DIR=TORCH, XDG_STATE_HOME=self.folder))


class DebTest(Trying):
    def test_each_installs_its_program(self):
        for name in ("mtrun", "mtrdzv", "mtdata"):
            found = package(f"{name}_*.deb")
            self.assertIn("libc6", run("dpkg-deb", "-f", found, "Depends"))
            run("dpkg-deb", "-x", found, self.folder)
            self.assertIn(name, run(os.path.join(self.folder, "usr", "bin", name), "--help"))


class InstallTest(Trying):
    """cmake --install of the source build."""

    def test_the_prefix_can_be_moved_and_is_everybodys(self):
        if not os.path.exists(os.path.join(RELEASE, "libexec", "mtrun", "trainer")):
            self.skipTest("there is no build/release")
        first, moved = os.path.join(self.folder, "first"), os.path.join(self.folder, "moved")
        run("cmake", "--install", RELEASE, "--prefix", first)
        os.rename(first, moved)
        os.chmod(self.folder, 0o755)
        as_other = {"user": 65534, "group": 65534, "extra_groups": []} if os.getuid() == 0 else {}
        said = run(os.path.join(moved, "bin", "mtrun"), "--standalone", "--trainer", "cnnA", "--help", cwd="/", **as_other,
                   env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "TMPDIR": "/tmp"})
        self.assertIn("--learning_rate", said)
        needed = run("objdump", "-p", os.path.join(moved, "libexec", "mtrun", "trainer"))
        self.assertNotRegex(needed, r"R(UN)?PATH")


class CleanRootTest(Trying):
    """Debian as its installer leaves it, by debootstrap: the wheel and the .deb packages in it."""

    def root(self, release):
        if os.getuid() != 0:
            self.skipTest("needs root")
        if shutil.which("debootstrap") is None:
            self.skipTest("debootstrap is not here: tools/setup --package-tools")
        root = os.path.join(self.folder, release)
        mirror = self.mirror()
        run("debootstrap", "--variant=minbase", "--include=python3-venv", release, root, *([mirror] if mirror else []))
        return root

    @staticmethod
    def mirror():
        """The archive that this machine's apt uses."""
        folder = "/etc/apt/sources.list.d/"
        for path in glob.glob("/etc/apt/sources.list") + glob.glob(folder + "*.list") + glob.glob(folder + "*.sources"):
            with open(path, encoding="utf-8") as file:
                found = re.search(r"(?:^deb\s(?:\[[^]]*\]\s)?|^URIs:\s*)(\w+://\S+/debian/?)\s", file.read(), re.M)
            if found:
                return found.group(1)
        return None

    def try_in(self, release):
        root = self.root(release)
        wheel, debs = package("mtrun-*.whl"), [package(f"{name}_*.deb") for name in ("mtrun", "mtrdzv", "mtdata")]
        for path in [wheel, *debs]:
            shutil.copy(path, os.path.join(root, "tmp"))
        shutil.copytree(FASHION, os.path.join(root, "tmp", "fashion"))
        names = " ".join("/tmp/" + os.path.basename(path) for path in debs)
        # In namespaces of its own: programs look into /proc, and nothing of it is left.
        within = ["unshare", "--mount", "--pid", "--fork", f"--mount-proc={root}/proc", "chroot", root]
        run(*within, "sh", "-ec", f"""
python3 -m venv /opt/v
/opt/v/bin/pip install -q --no-index --no-deps /tmp/{os.path.basename(wheel)}
/opt/v/bin/mtrun --version
/opt/v/bin/mtrdzv --version
/opt/v/bin/mtdata import /tmp/fashion /tmp/data
/opt/v/bin/mtrun --standalone --nproc_per_node 2 --no_python sh -c 'exit 0'
/opt/v/bin/pip uninstall -q -y mtrun
dpkg -i {names}
/usr/bin/mtrun --standalone --nproc_per_node 2 --no_python sh -c 'exit 0'
/usr/bin/mtrdzv --help >/dev/null
dpkg -r mtrun mtrdzv mtdata
test ! -e /usr/bin/mtrun""")

    def test_debian_12(self):
        self.try_in("bookworm")

    def test_debian_13(self):
        self.try_in("trixie")


if __name__ == "__main__":
    if len(sys.argv) > 1 and os.path.isdir(sys.argv[1]):
        packages = os.path.realpath(sys.argv.pop(1))
    program = unittest.main(exit=False)
    for case, why in program.result.skipped:  # tools/test counts them
        print(f"skip  {case.id()}: {why}")
    sys.exit(0 if program.result.wasSuccessful() else 1)
