#!/usr/bin/env python3
"""The network of a reader's own in docs/programs.md, done as the page says: in a copy of the tree its files are written and its
rows added, then its commands build, train and export it. ctest runs it as docs.own_trainer; tools/check runs PageTest alone.

  tools/own_trainer_test.py --bin FOLDER --torch FOLDER [--built FOLDER]
  tools/own_trainer_test.py PageTest

--bin: mtrun and mtdata. --torch: MT_TORCH_DIR of the build. --built: the folder bin of an earlier such build, instead of building."""
import argparse
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
import trainer_names  # noqa: E402

PAGE = os.path.join(TOP, "docs", "programs.md")
SECTION = "## A network of your own in C++"
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "mtrun")
PEERS = os.environ.get("MT_PEERS_PYTHON", os.path.join(CACHE, "peers", "bin", "python"))
SHORT = ["--max_steps", "20", "--eval_images", "64"]
BUILD_SECONDS, RUN_SECONDS = 5000, 300
# Arguments: the exported folder, what --predict wrote.
COMPARE = """
import json, sys
sys.path.insert(0, sys.argv[1])
import model, torch
from PIL import Image
network, count = model.load(), 0
for line in map(json.loads, open(sys.argv[2])):
    with torch.no_grad(), Image.open(line["file"]) as image:
        got = network(model.preprocess(image))[0].double().softmax(0)
    for top in line["top"]:
        assert abs(float(got[model.CONFIG["classes"].index(top["class"])]) - top["probability"]) < 1e-5, (line, got)
        count += 1
print("same", count)
"""


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def blocks():
    """[(language, text)] of the section's fenced blocks, in order."""
    section = read(PAGE).partition(SECTION + "\n")[2].partition("\n## ")[0]
    return re.findall(r"^```(\w*)\n(.*?)^```$", section, re.M | re.S)


def path_of(block):
    """The file that a block's first line names, or None."""
    named = re.match(r"(?://|#) (\S+/\S+)\n", block)
    return named and named[1]


def files():
    """{path: block} of the blocks that name a file."""
    return {path_of(text): text for _, text in blocks() if path_of(text)}


def with_row(text, block):
    """The text of a file with the last line of a block added after the lines that precede it there."""
    *before, row = block.partition("\n")[2].splitlines(keepends=True)
    context = "".join(before)
    if not context or text.count(context) != 1:
        raise ValueError(f"these lines are not once in the file:\n{context}")
    return text.replace(context, context + row)


def write_block(folder, block):
    """Writes a new file, or adds a row to one of the tree at `folder`."""
    target = os.path.join(folder, path_of(block))
    text = with_row(read(target), block) if os.path.exists(target) else block
    with open(target, "w", encoding="utf-8") as file:
        file.write(text)


def copy_tree(folder, under=()):
    listed = subprocess.run(["git", "ls-files", "-zco", "--exclude-standard", *under], cwd=TOP, capture_output=True, text=True, check=True)
    for path in listed.stdout.split("\0"):
        if os.path.isfile(os.path.join(TOP, path)):
            os.makedirs(os.path.dirname(os.path.join(folder, path)), exist_ok=True)
            shutil.copy(os.path.join(TOP, path), os.path.join(folder, path))


class InFolder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="mtrun-own-")
        self.addCleanup(shutil.rmtree, self.folder)


class PageTest(InFolder):
    """Without a build."""

    def test_its_rows_are_added_once_and_its_other_files_are_new(self):
        copy_tree(self.folder, ("trainers",))
        existing = [path for path in files() if os.path.exists(os.path.join(self.folder, path))]
        self.assertEqual(existing, ["trainers/models/CMakeLists.txt", "trainers/trainer_list.h"])
        self.assertEqual(len(files()), 6)
        for block in files().values():
            write_block(self.folder, block)
        changed = subprocess.run(["diff", "-r", os.path.join(TOP, "trainers"), os.path.join(self.folder, "trainers")],
                                 capture_output=True, text=True, check=False).stdout
        lines = [line for line in changed.splitlines() if re.match("[<>]", line)]
        self.assertEqual([line.split() for line in lines], [[">", "my_net.cc"], [">", 'X("mynet",', "MyNetProgram)", "\\"]])

    def test_the_list_that_it_makes_is_read(self):
        block = files()["trainers/trainer_list.h"]
        made = os.path.join(self.folder, "trainer_list.h")
        with open(made, "w", encoding="utf-8") as file:
            file.write(with_row(read(trainer_names.LIST), block))
        before, trainer_names.LIST = trainer_names.LIST, made
        self.addCleanup(setattr, trainer_names, "LIST", before)
        self.assertIn(("mynet", "MyNetProgram"), trainer_names.rows())

    def test_its_commands_build_train_and_export(self):
        self.assertEqual([line.split()[0] for _, text in blocks() if not path_of(text) for line in text.splitlines()],
                         ["cmake", "mtrun", "mtrun", "cmake", "mynet"])

    def test_a_row_whose_place_is_not_there_is_refused(self):
        self.assertEqual(with_row("a\nb\nc\n", "# file\nb\nnew\n"), "a\nb\nnew\nc\n")
        for text in ("a\nc\n", "b\nb\n"):
            with self.assertRaisesRegex(ValueError, "not once"):
                with_row(text, "# file\nb\nnew\n")


class BuildTest(InFolder):
    bin = torch = built = ""

    def run_in(self, folder, words, seconds, **more):
        done = subprocess.run(words, cwd=folder, env={**self.environment, **more}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              stdin=subprocess.DEVNULL, text=True, timeout=seconds, check=False)
        self.assertEqual(done.returncode, 0, f"{shlex.join(words)}:\n{done.stdout[-5000:]}")
        return done.stdout

    def build(self, line):
        """Runs a line of the page that builds, of the target `trainer` alone."""
        tree = os.path.join(self.folder, "tree")
        # ccache knows the files from other checkouts if it is set up as tools/cmake/MtTargets.cmake says.
        more = {"CCACHE_BASEDIR": tree, "CCACHE_NOHASHDIR": "true"}
        for command in line.split(" && "):
            extra = ["--target", "trainer"] if "--build" in command else ["-DBUILD_TESTING=OFF", f"-DMT_TORCH_DIR={self.torch}"]
            self.run_in(tree, ["nice", "-n", "19", *shlex.split(command), *extra], BUILD_SECONDS, **more)

    def follow(self):
        """Does what each block says, in the page's order. Returns what the programs print."""
        if not self.built:
            copy_tree(os.path.join(self.folder, "tree"))
        texts = []
        for _, block in blocks():
            if path_of(block):
                if not self.built:
                    write_block(os.path.join(self.folder, "tree"), block)
                continue
            for line in block.splitlines():
                if not line.startswith("cmake"):
                    texts.append(self.run_in(self.folder, shlex.split(line) + (SHORT if "--data" in line else []), RUN_SECONDS))
                elif not self.built:
                    self.build(line)
        return texts

    def test_it_builds_trains_and_exports(self):
        trainers = self.built or os.path.join(self.folder, "tree", "build", "release", "bin")
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(("MTRUN_", "PET_"))}
        self.environment.update(PATH=os.pathsep.join((self.bin, trainers, os.environ["PATH"])), MTRUN_TRAINER_PATH=trainers,
                                OMP_NUM_THREADS="1", XDG_STATE_HOME=self.folder)
        self.run_in(self.folder, ["mtdata", "import", os.path.join(TOP, "tests", "testdata", "cifar10", "cifar10-2500.tar.xz"),
                                  os.path.join("data", "photos")], RUN_SECONDS)
        texts = self.follow()
        self.assertIn("Trains my network.", texts[0])
        with open(os.path.join(self.folder, "runs", "mynet", "metrics.jsonl"), encoding="utf-8") as file:
            losses = [line["loss"] for line in map(json.loads, file) if "step" in line and "loss" in line]
        self.assertEqual(len(losses), 20)
        self.assertEqual(sorted(os.listdir(os.path.join(self.folder, "exported"))), ["model.json", "model.py", "model.safetensors"])
        if os.access(PEERS, os.X_OK):  # tools/setup --peers
            self.compare()
        else:
            print(f"no Python with PyTorch at {PEERS}: the exported network was not run")

    def compare(self):
        """The exported network gives the probabilities that --predict gives."""
        for number in range(3):
            self.run_in(self.folder, ["mtdata", "show", "data/photos", "--png", f"{number}.png", "--count", str(1 + number)], RUN_SECONDS)
        self.run_in(self.folder, ["mynet", "--weights_of", "runs/mynet", "--out", "predictions.jsonl", "--top_k", "10", "--predict",
                                  "0.png", "1.png", "2.png"], RUN_SECONDS)
        said = self.run_in(self.folder, [PEERS, "-c", COMPARE, "exported", "predictions.jsonl"], RUN_SECONDS)
        self.assertEqual(said.split()[-2:], ["same", "30"])


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin")
    parser.add_argument("--torch")
    parser.add_argument("--built", default="")
    args, rest = parser.parse_known_args(argv)
    if args.bin:
        BuildTest.bin, BuildTest.torch = os.path.abspath(args.bin), args.torch
        BuildTest.built = os.path.abspath(args.built) if args.built else ""
    elif not rest:
        parser.error("give --bin and --torch, or PageTest")
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main(sys.argv[1:])
