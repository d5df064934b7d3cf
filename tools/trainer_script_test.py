#!/usr/bin/env python3
"""Tests of trainers/program/trainer.sh: the trainer that it starts, and its libraries."""
import os
import shutil
import subprocess
import tempfile
import unittest

TOP = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
PROGRAM = """#include <cstdio>
#include <cstdlib>
void here();
int main(int, char** argv) { here(); return std::printf("%s\\n%s\\n", argv[0], std::getenv("LD_LIBRARY_PATH")) < 0; }
"""


class TrainerScriptTest(unittest.TestCase):
    """Stubs: a trainer that links libtorch_cpu.so; one that links libtorch_cuda.so and a library in nvidia/."""

    @classmethod
    def setUpClass(cls):
        cls.made = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.made.cleanup)
        cls.write(cls.at("here.cc"), "void here() {}\n")
        cls.write(cls.at("program.cc"), PROGRAM)
        for name in ("libtorch_cpu.so", "libtorch_cuda.so", "libmtrun_test.so"):
            cls.compile("-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", cls.at(name), cls.at("here.cc"))
        for name, libraries in (("trainer", ["libtorch_cpu.so"]), ("trainer-cuda", ["libtorch_cuda.so", "libmtrun_test.so"])):
            cls.compile("-Wl,--no-as-needed", "-o", cls.at(name), cls.at("program.cc"), *map(cls.at, libraries))

    @classmethod
    def at(cls, name):
        return os.path.join(cls.made.name, name)

    @staticmethod
    def write(path, text):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    @staticmethod
    def compile(*words):
        subprocess.run(["c++", *words], check=True)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.script = self.copy(os.path.join(TOP, "trainers", "program", "trainer.sh"), "mtrun", "libexec", "mtrun", "trainers", "cnnA")
        self.copy(self.at("trainer"), "mtrun", "libexec", "mtrun", "trainer")
        self.copy(self.at("trainer-cuda"), "mtrun", "libexec", "mtrun", "trainer-cuda")
        self.copy(self.at("libtorch_cpu.so"), "torch", "lib", "libtorch_cpu.so")

    def copy(self, source, *target):
        target = os.path.join(self.folder, *target)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        return shutil.copy(source, target)

    def started(self, **more):
        """Returns (the program's name, its folders of libraries)."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("MT_", "LD_"))} | more
        said = subprocess.run([self.script], check=True, capture_output=True, text=True, env=kept).stdout.splitlines()
        return os.path.basename(said[0]), [os.path.relpath(os.path.realpath(path), os.path.realpath(self.folder))
                                           for path in said[1].split(":")]

    def test_the_set_for_processors_has_no_cuda(self):
        self.assertEqual(self.started(), ("trainer", ["torch/lib"]))

    def test_with_all_that_it_links_the_one_with_cuda_starts_and_finds_it(self):
        self.copy(self.at("libtorch_cuda.so"), "torch", "lib", "libtorch_cuda.so")
        self.copy(self.at("libmtrun_test.so"), "nvidia", "cu13", "lib", "libmtrun_test.so")
        self.assertEqual(self.started(), ("trainer-cuda", ["torch/lib", "nvidia/cu13/lib"]))

    def test_the_wheels_libraries_come_before_those_of_another_cuda_release(self):
        self.copy(self.at("libtorch_cuda.so"), "torch", "lib", "libtorch_cuda.so")
        self.copy(self.at("libmtrun_test.so"), "nvidia", "cu13", "lib", "libmtrun_test.so")
        other = os.path.join(self.folder, "cuda-12")
        self.assertEqual(self.started(LD_LIBRARY_PATH=other), ("trainer-cuda", ["torch/lib", "nvidia/cu13/lib", "cuda-12"]))

    def test_without_one_library_the_other_starts(self):
        """The full wheel without most of NVIDIA's libraries (tools/setup), or with those of another CUDA."""
        self.copy(self.at("libtorch_cuda.so"), "torch", "lib", "libtorch_cuda.so")
        self.assertEqual(self.started(), ("trainer", ["torch/lib"]))

    def test_a_package_without_it_starts_the_one_that_there_is(self):
        os.remove(os.path.join(self.folder, "mtrun", "libexec", "mtrun", "trainer-cuda"))
        self.copy(self.at("libtorch_cuda.so"), "torch", "lib", "libtorch_cuda.so")
        self.assertEqual(self.started(), ("trainer", ["torch/lib"]))

    def test_missing_library_is_named_except_by_the_check_of_several_nodes(self):
        os.remove(os.path.join(self.folder, "torch", "lib", "libtorch_cpu.so"))
        env = {**os.environ, "MT_TORCH_DIR": self.folder}
        for words, status, lines in (((), 2, 1), (("--check", "--epochs", "1"), 2, 1), (("--check_settings", "--epochs", "1"), 127, 0)):
            done = subprocess.run([self.script, *words], check=False, capture_output=True, text=True, env=env)
            self.assertEqual((done.returncode, done.stderr.count("there is no torch/lib/libtorch_cpu.so"), done.stdout), (status, lines, ""))


if __name__ == "__main__":
    unittest.main()
