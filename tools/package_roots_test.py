#!/usr/bin/env python3
"""Tests packages in clean systems made by debootstrap: installs by README's own lines, trains with two workers, kills
one, and removes all. tools/check --package (in tools/test --full) runs it; needs root.

  tools/package_roots_test.py [FOLDER_OF_PACKAGES] [-k PATTERN]

In Debian 12 LibTorch is that of README's three wheels, downloaded once to ~/.cache/mtrun/wheels (543 MB); the time
until two workers train is printed. In Debian 13 it is this machine's, read-only: MT_TORCH_DIR."""
import collections
import glob
import os
import re
import shutil
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "package.d"))
import trial
from trial import CACHE, FASHION, TOP, TORCH, files_of, need_torch, package, run

WHEELS = os.path.join(CACHE, "wheels")
MINUTE = 60  # limit on a quiet machine, from pip install to two workers that train
BUSY = 3  # factor if other programs compute
HOME, VENV = "/root", "/root/mtrun"
# Files of a user's runs and programs, and caches; pip and dpkg remove what they have installed.
USERS = re.compile(r"(root/(try|\.cache|\.local/state/mtrun)/|root/\.mtrun/token$|var/(cache|log|lib)/(apt|dpkg|ldconfig)|var/log/)")
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": HOME, "LANG": "C.UTF-8",
               "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/wheels"}


def fetch_wheels():
    """Downloads those of tools/wheels/cpu.txt for Debian 12, as tools/setup chooses them."""
    kinds = ["linux_x86_64", "manylinux2014_x86_64", *(f"manylinux_2_{minor}_x86_64" for minor in range(5, 37))]
    run(sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:",
        "--require-hashes", "--python-version", "3.11", *(word for kind in kinds for word in ("--platform", kind)),
        "-d", WHEELS, "-r", os.path.join(TOP, "tools", "wheels", "cpu.txt"), patience=1800)


def mirror():
    """Returns the archive that this machine's apt uses."""
    folder = "/etc/apt/sources.list.d/"
    for path in glob.glob("/etc/apt/sources.list") + glob.glob(folder + "*.list") + glob.glob(folder + "*.sources"):
        found = re.search(r"(?:^deb\s(?:\[[^]]*\]\s)?|^URIs:\s*)(\w+://\S+/debian/?)\s", trial.text_of(path), re.M)
        if found:
            return found.group(1)
    return None


class CleanRootTest(trial.Trying):
    def make_root(self, release):
        if os.getuid() != 0:
            self.skipTest("needs root")
        if shutil.which("debootstrap") is None:
            self.skipTest("debootstrap is not here: tools/setup --package-tools")
        self.root = os.path.join(self.folder, release)
        found = mirror()
        run("debootstrap", "--variant=minbase", "--include=python3-venv", release, self.root, *([found] if found else []), patience=900)
        shutil.copytree(FASHION, self.root + FASHION)
        self.packages = os.path.join(self.root + HOME, "build", "packages")
        os.makedirs(self.packages)
        os.mkdir(self.root + "/wheels")
        os.mkdir(self.root + "/torch")

    def within(self, shown=None):
        """Returns words that start a program in the root and its own namespaces, because programs use /proc and must
        leave nothing. `shown`: (folder here, its location there), read-only. The shell stays the first process."""
        mount = f"mount --bind -o ro '{shown[0]}' '{self.root}{shown[1]}'" if shown else ""
        return ["unshare", "--mount", "--pid", "--fork", "--kill-child", f"--mount-proc={self.root}/proc",
                "sh", "-ec", f"{mount}\nchroot '{self.root}' \"$@\"\n:", "sh"]

    def does(self, script, shown=None):
        return run(*self.within(shown), "sh", "-ec", f"cd {HOME}\n{script}", env=ENVIRONMENT)

    def train(self, shown, **more):
        return self.train_and_kill(f"{VENV}/bin/mtrun", f"{VENV}/bin/mtdata", f"{VENV}/share/mtrun/tools/verify_ledger",
                                   {**ENVIRONMENT, **more}, self.root, self.within(shown))

    def assert_nothing_left(self, before, what):
        """Checks that only the user's own files are left, which are printed."""
        left = files_of(self.root) - before
        self.assertEqual({name for name in left if not USERS.match(name)}, set())
        folders = collections.Counter("/".join(name.split("/")[:4]) for name in left)
        print(f"left of {what}: {', '.join(f'{folder} ({count})' for folder, count in sorted(folders.items())) or 'nothing'}")

    def try_wheel(self, line, others, shown, **more):
        """Installs by that line of README, with `others`. Returns the seconds until two workers trained."""
        shutil.copy(package("mtrun-*.whl"), self.packages)
        make, enter = trial.readme_commands()[0].split(" && ")
        self.does(make)
        before = files_of(self.root)
        began = time.monotonic()
        self.does(f"{enter}\n{line}", shown)
        trained = self.train(shown, **more)
        said = self.does(f"{enter}\nmtrun --version\nmtrdzv --version\nmtdata --version\npip uninstall -q -y mtrun {others}")
        for name in ("mtrun", "mtrdzv", "mtdata"):
            self.assertRegex(said, rf"(?m)^{name} 0\.2\.0 {trial.COMMIT}")
        self.assert_nothing_left(before, "the wheel")
        return trained - began

    def try_debs(self):
        debs = [shutil.copy(package(f"{name}_*.deb"), self.packages) for name in ("mtrun", "mtrdzv", "mtdata")]
        before = files_of(self.root)
        self.does(f"""dpkg -i {' '.join('build/packages/' + os.path.basename(path) for path in debs)}
/usr/bin/mtrun --standalone --nproc_per_node 2 --no_python sh -c 'exit 0'
/usr/bin/mtrdzv --help >/dev/null
/usr/bin/mtdata import {FASHION} try/by-deb
dpkg -P mtrun mtrdzv mtdata""")
        self.assert_nothing_left(before, "the .deb packages")

    def test_debian_12(self):
        self.make_root("bookworm")
        fetch_wheels()
        took = self.try_wheel(trial.readme_commands()[1][2], "torch nvidia-cuda-runtime nvidia-cuda-cupti", (WHEELS, "/wheels"))
        print(f"figure: from pip install to two workers that train, Debian 12: {took:.0f} s (bound {MINUTE} s on a quiet machine)")
        self.assertLess(took, MINUTE * BUSY)
        self.try_debs()

    def test_debian_13(self):
        need_torch()
        self.make_root("trixie")
        self.try_wheel(trial.readme_commands()[1][0], "", (TORCH, "/torch"), MT_TORCH_DIR="/torch")
        self.try_debs()


if __name__ == "__main__":
    trial.main()
