#!/usr/bin/env python3
"""Replays the Containerfile: its steps run one by one in a fresh Debian (debootstrap, chroot), and its user trains
there. tools/check --package (in tools/test --full) runs it after `tools/package wheel`. Tests without their
requirements are skipped. The download of LibTorch is left out (TORCH=none): this machine's is mounted.

  tools/container_test.py [-k PATTERN]"""
import fnmatch
import glob
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
TOP = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.join(TOP, "tools"))
import debian_root

RELEASES = {"debian:12-slim": "bookworm"}
FASHION = "/usr/share/datasets/fashion-mnist"
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "mtrun")
TORCH = os.environ.get("MT_TORCH_DIR", os.path.join(CACHE, "libtorch-2.11.0"))
PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")  # engines pass them on
PATIENCE = 600


def steps(text):
    """Yields (instruction, argument) of a Containerfile, with continued lines joined, as for the shell."""
    text = re.sub(r"^\s*#.*\n", "", text, flags=re.M)
    for line in re.sub(r"\\\n", " ", text).splitlines():
        if line.strip():
            word, argument = line.strip().split(None, 1)
            yield word, argument


def containerfile():
    with open(os.path.join(TOP, "Containerfile"), encoding="utf-8") as file:
        return list(steps(file.read()))


def pattern_of(context):
    """Returns a pattern of the source files that .dockerignore admits."""
    with open(os.path.join(TOP, ".dockerignore"), encoding="utf-8") as file:
        return any(fnmatch.fnmatch(context, line[1:].strip()) for line in file if line.startswith("!"))


class Image:
    """A root folder, and the Containerfile's settings for its programs."""

    def __init__(self, root, arguments):
        self.root, self.given, self.arguments = root, arguments, {}
        self.environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
        self.user, self.folder, self.entrypoint, self.command = "0:0", "/", [], []

    def perform(self, instruction, argument):
        getattr(self, "do_" + instruction.lower())(argument)

    def run(self, command, mounts=(), **more):
        """Runs a command as the container's user, in its own namespaces and environment. Returns the output."""
        script = "".join(f"mount --bind {shlex.quote(source)} {shlex.quote(self.root + target)}\n" for source, target in mounts)
        words = ["unshare", "--mount", "--pid", "--fork", f"--mount-proc={self.root}/proc", "sh", "-ec", script + 'exec "$@"', "sh",
                 "chroot", f"--userspec={self.user}", self.root, "env", "-i", "-C", self.folder,
                 *(f"{name}={value}" for name, value in {**self.environment, **more}.items()), *command]
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False)
        if done.returncode:
            raise AssertionError(f"{shlex.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    # ---- instructions

    def do_arg(self, argument):
        name, _, default = argument.partition("=")
        self.arguments[name] = self.given.get(name, default)

    def do_run(self, argument):
        proxies = {name: os.environ[name] for name in PROXIES if name in os.environ}
        self.run(["/bin/sh", "-c", argument], **proxies, **self.arguments)

    def do_copy(self, argument):
        *sources, target = argument.split()
        found = [path for source in sources for path in glob.glob(os.path.join(TOP, source))]
        if not found:
            raise unittest.SkipTest(f"there is no {' '.join(sources)}: tools/package makes it")
        os.makedirs(self.root + target, exist_ok=True)
        for path in found:
            copy = shutil.copytree if os.path.isdir(path) else shutil.copy
            copy(path, self.root + target, **({"dirs_exist_ok": True} if copy is shutil.copytree else {}))

    def do_env(self, argument):
        for word in shlex.split(argument):
            name, _, value = word.partition("=")
            self.environment[name] = value

    def do_user(self, argument):
        self.user = argument

    def do_workdir(self, argument):
        self.folder = argument

    def do_entrypoint(self, argument):
        self.entrypoint = json.loads(argument)

    def do_cmd(self, argument):
        self.command = json.loads(argument)


class ContainerfileTest(unittest.TestCase):
    def test_lines_are_steps(self):
        text = "# a comment\nFROM x\nRUN one \\\n && two\n\nCMD [\"a\", \"b c\"]\n"
        self.assertEqual([(word, " ".join(argument.split())) for word, argument in steps(text)],
                         [("FROM", "x"), ("RUN", "one && two"), ("CMD", '["a", "b c"]')])

    def test_copied_files_reach_the_engine(self):
        for instruction, argument in containerfile():
            if instruction == "COPY":
                for source in argument.split()[:-1]:
                    self.assertTrue(pattern_of(source.rstrip("/")), f".dockerignore keeps {source} out")

    def test_it_begins_with_a_debian_that_is_replayed(self):
        base, first, *others = containerfile()
        self.assertIn(base, [("ARG", f"BASE={image}") for image in RELEASES])
        self.assertEqual(first, ("FROM", "$BASE"))  # a build can give a digest
        self.assertNotIn("FROM", [instruction for instruction, _ in others])
        for instruction, _ in others:
            self.assertTrue(hasattr(Image, "do_" + instruction.lower()), instruction)

    def test_the_manifests_are_for_this_image(self):
        image = Image("", {})
        for instruction, argument in containerfile():
            if instruction in ("ENV", "USER", "ENTRYPOINT"):
                image.perform(instruction, argument)
        with open(os.path.join(TOP, "configs", "kubernetes", "training-job.yaml"), encoding="utf-8") as file:
            user, group = (re.search(rf"\b{name}: (\d+)", text)[1] for text in [file.read()] for name in ("runAsUser", "runAsGroup"))
        self.assertEqual(image.user, f"{user}:{group}")
        with open(os.path.join(TOP, "tools", "kubernetes.d", "pod.py"), encoding="utf-8") as file:
            self.assertIn(f'PATH = "{image.environment["PATH"]}"', file.read())  # which the manifests' replay uses
        self.assertEqual(image.entrypoint, ["mtrun"])


class ImageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if os.getuid() != 0:
            raise unittest.SkipTest("needs root")
        if shutil.which("debootstrap") is None:
            raise unittest.SkipTest("debootstrap is not here: tools/setup --package-tools")
        cls.folder = tempfile.mkdtemp(prefix="mtrun-container-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.image = Image(os.path.join(cls.folder, "root"), {"TORCH": "none"})
        (_, base), _, *others = containerfile()
        debian_root.make(RELEASES[base.removeprefix("BASE=")], cls.image.root)
        for step in others:
            cls.image.perform(*step)

    def test_the_entrypoint_is_mtrun(self):
        self.assertIn("usage: mtrun", self.image.run(self.image.entrypoint + self.image.command))
        self.assertIn("mtrun ", self.image.run([*self.image.entrypoint, "--version"]))

    def test_its_user_is_not_root_and_changes_no_program(self):
        self.assertEqual(self.image.run(["id", "-u"]), "1000\n")
        self.image.run(["sh", "-c", "test -w . && test ! -w /opt/mtrun/bin"])

    def test_programs_in_python_find_the_package(self):
        self.assertEqual(self.image.run(["python", "-c", "import mtrun; print(mtrun.join({}).world_size)"]), "1\n")
        self.image.run(["mtrun", "--standalone", "--nproc_per_node", "2", "--no_python", "sh", "-c", "exit 0"], HOME=self.image.folder)

    def test_nothing_of_the_build_is_left(self):
        self.image.run(["sh", "-c", "test ! -e /tmp/wheels && test ! -e /tmp/packages"])

    def test_it_trains(self):
        if not os.path.exists(os.path.join(TORCH, "torch", "lib", "libtorch_cpu.so")):
            self.skipTest("there is no LibTorch here: tools/setup")
        for folder in ("torch", "fashion"):
            os.makedirs(os.path.join(self.image.root, "mnt", folder))
        mounts = ((TORCH, "/mnt/torch"), (FASHION, "/mnt/fashion"))
        home = {"HOME": self.image.folder, "MT_TORCH_DIR": "/mnt/torch"}
        self.image.run(["mtdata", "import", "/mnt/fashion", "data"], mounts, **home)
        said = self.image.run(["mtrun", "--standalone", "--nproc_per_node", "2", "--trainer", "cnnA", "--data", "data", "--model_folder",
                               "run", "--max_steps", "20", "--threads", "1"], mounts, **home)
        self.assertIn("the job has ended: its node finished", said)


if __name__ == "__main__":
    program = unittest.main(exit=False)
    for case, why in program.result.skipped:  # counted by tools/test
        print(f"skip  {case.id() if hasattr(case, 'id') else case}: {why}")
    sys.exit(0 if program.result.wasSuccessful() else 1)
