#!/usr/bin/env python3
"""Tests tools/setup with simulated pip and unzip: a partly unpacked folder is never taken for LibTorch."""
import os
import subprocess
import tempfile
import unittest

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
VERSION = "#define TORCH_VERSION_MAJOR 2\\n#define TORCH_VERSION_MINOR 11\\n"
# Replacements of Debian's programs.
PIP = """if [ "$2" = venv ]; then mkdir -p "$3/bin" && printf '#!/bin/sh\\n' >"$3/bin/python" && chmod +x "$3/bin/python"; exit; fi
while [ "$1" != -d ]; do shift; done
touch "$2/a.whl" "$2/b.whl"
"""
UNZIP = f"""while [ "$1" != -d ]; do wheel=$1; shift; done
mkdir -p "$2/torch/lib" "$2/torch/include/torch/headeronly"
touch "$2/torch/lib/libtorch_cpu.so"
printf '{VERSION}' >"$2/torch/include/torch/headeronly/version.h"
"""
DISK_FULL = """case $wheel in *b.whl) echo "write error (disk full?)" >&2; exit 50 ;; esac
"""


class SetupTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.libtorch = os.path.join(self.folder, "cache", "mtrun", "libtorch-2.11.0")
        os.mkdir(os.path.join(self.folder, "bin"))
        self.program("dpkg-query", "echo installed\n")
        self.program("python3", PIP)

    def program(self, name, text):
        path = os.path.join(self.folder, "bin", name)
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n" + text)
        os.chmod(path, 0o755)

    def setup(self, unzip, *arguments):
        self.program("unzip", unzip)
        environment = {**os.environ, "PATH": os.path.join(self.folder, "bin") + ":" + os.environ["PATH"],
                       "XDG_CACHE_HOME": os.path.join(self.folder, "cache"), "TMPDIR": self.folder}
        environment.pop("MT_TORCH_DIR", None)
        done = subprocess.run([os.path.join(TOP, "tools", "setup"), *arguments], capture_output=True, text=True,
                              env=environment)
        return done.returncode, done.stdout + done.stderr

    def left(self):
        """Returns what is left beside LibTorch, and among temporary files."""
        beside = os.listdir(os.path.dirname(self.libtorch))
        return beside + [name for name in os.listdir(self.folder) if name.startswith("mtrun-wheels")]

    def test_complete_libtorch_is_kept(self):
        status, said = self.setup(UNZIP)
        self.assertEqual(status, 0, said)
        self.assertEqual(sorted(self.left()), ["libtorch-2.11.0", "linters"])
        self.assertIn("LibTorch 2.11: at ", self.setup(DISK_FULL)[1])

    def test_a_disk_that_is_full_leaves_nothing(self):
        status, said = self.setup(UNZIP + DISK_FULL)
        self.assertEqual(status, 1, said)
        self.assertIn("b.whl could not be unpacked", said)
        self.assertEqual(self.left(), [])
        self.assertIn("LibTorch 2.11 missing", self.setup(UNZIP, "--check")[1])

    def test_existing_libtorch_is_kept(self):
        os.makedirs(os.path.join(self.libtorch, "torch"))
        self.assertEqual(self.setup(UNZIP + DISK_FULL)[0], 1)
        self.assertEqual(self.left(), ["libtorch-2.11.0"])


    def test_linters_are_reported_and_made(self):
        status, said = self.setup(UNZIP, "--check")
        self.assertEqual(status, 1)
        self.assertIn(f"ruff and mypy missing: tools/setup makes {self.folder}/cache/mtrun/linters", said)
        self.assertEqual(self.setup(UNZIP, "--build-only")[0], 0)
        self.assertEqual(self.setup(UNZIP, "--check")[0], 1)
        self.assertEqual(self.setup(UNZIP, "--check", "--build-only")[0], 0)
        self.setup(UNZIP)
        self.assertEqual(self.setup(UNZIP, "--check")[0], 0)


if __name__ == "__main__":
    unittest.main()
