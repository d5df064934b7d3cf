"""The trainer timm: the losses of mtrun's own resnet18 for the same network, images and recipe; a killed worker costs no
sample; what is missing or wrong is one sentence. It needs PyTorch, torchvision, timm and the programs in MT_BIN;
tests/e2e/python_package_test.cc runs it."""
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

import numpy
import support
import timm
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

BIN = os.environ["MT_BIN"]
TRAINER = os.path.join(support.ROOT, "python", "trainers", "timm")
LONG = 400.0  # seconds: several starts of PyTorch on a loaded machine
CLASSES, TRAIN, TEST, SIDE = 3, 24, 8, 32
RECIPE = ["--epochs", "2", "--batch_size", "8", "--global_batch", "16", "--learning_rate", "0.05", "--momentum", "0.9",
          "--weight_decay", "0", "--schedule", "constant", "--image_size", str(SIDE), "--normalize", "half", "--seed", "3"]
OURS = [*RECIPE, "--optimizer", "momentum", "--warmup_share", "0", "--label_smoothing", "0", "--augment", "none", "--read_workers", "1"]


def losses(folder):
    """Returns {step: loss} of the ledger."""
    with open(os.path.join(folder, "ledger.jsonl"), encoding="utf-8") as file:
        return {line["step"]: float(line["loss"]) for line in map(json.loads, file) if line.get("status") == "applied"}


class TimmTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = cls.temporary.name
        cls.data = os.path.join(cls.folder, "photos")
        draw = numpy.random.RandomState(0)
        colours = draw.randint(60, 200, (CLASSES, 3))
        for split, count in (("train", TRAIN), ("test", TEST)):
            for number, colour in enumerate(colours):
                at = os.path.join(cls.data, split, f"class{number}")
                os.makedirs(at)
                for i in range(count):
                    pixels = numpy.clip(colour + draw.randint(-60, 60, (SIDE, SIDE, 3)), 0, 255).astype(numpy.uint8)
                    Image.fromarray(pixels).save(os.path.join(at, f"{i:03}.png"))
        torch.manual_seed(1)
        cls.weights = os.path.join(cls.folder, "weights.safetensors")
        save_file(timm.create_model("resnet18", num_classes=CLASSES).state_dict(), cls.weights)

    def worker(self):
        """Returns the pid of a worker; the processes that read its images have the same command line."""
        command = f"{os.path.join(BIN, 'timm')} .*{self.folder}"
        found = set(map(int, subprocess.run(["pgrep", "-f", command], capture_output=True, text=True).stdout.split()))

        def parent(pid):
            with open(f"/proc/{pid}/stat", encoding="ascii") as file:
                return int(file.read().rpartition(")")[2].split()[1])

        return next(pid for pid in sorted(found) if parent(pid) not in found)

    def run_it(self, command, status=0, kill_at=None):
        """Returns what a command prints. `kill_at`: kills a worker after a line with these words."""
        environment = {**os.environ, "PYTHON_EXEC": sys.executable, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1",
                       "XDG_STATE_HOME": self.folder}
        with subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as program:
            timer = threading.Timer(LONG, program.kill)
            timer.start()
            lines = []
            for line in program.stdout:
                lines.append(line)
                if kill_at and kill_at in line:
                    os.kill(self.worker(), signal.SIGKILL)
                    kill_at = None
            timer.cancel()
        self.assertEqual(program.returncode, status, "".join(lines))
        self.assertIsNone(kill_at, "".join(lines))
        return "".join(lines)

    def test_losses_are_those_of_resnet18(self):
        packed = os.path.join(self.folder, "packed")
        self.run_it([os.path.join(BIN, "mtdata"), "import", self.data, packed])
        self.run_it([os.path.join(BIN, "resnet18"), "--data", packed, "--model_folder", os.path.join(self.folder, "own"), "--train", "all",
                     "--init_from", self.weights, "--optimizer", "sgd", "--warmup_steps", "0", "--threads", "1", "--report=false", *RECIPE])
        folder = os.path.join(self.folder, "timm")
        said = self.run_it([sys.executable, TRAINER, "--model", "resnet18", "--data", self.data, "--model_folder", folder, "--init_from",
                            self.weights, *OURS])
        own, timms = losses(os.path.join(self.folder, "own")), losses(folder)
        self.assertEqual(len(own), 2 * math.ceil(CLASSES * TRAIN / 16))
        self.assertEqual(own.keys(), timms.keys())
        for step, loss in own.items():
            self.assertLess(abs(timms[step] - loss), 2e-4 * max(1, loss), (step, own, timms))
        self.assertGreater(own[0], 1.2 * own[max(own)], "it learns, so later losses depend on all before")
        path = re.search(r"checkpoint_path='(.*)'\)", said)[1]
        timm.create_model("resnet18", num_classes=CLASSES, checkpoint_path=path)  # as the last line says
        self.assertTrue(torch.isfinite(load_file(path)["fc.weight"]).all())

    def test_a_killed_worker_changes_no_loss(self):
        def train(name, *flags, **how):
            folder = os.path.join(self.folder, name)
            self.run_it([os.path.join(BIN, "mtrun"), "--standalone", "--nproc_per_node", "2", *flags, "--trainer", "timm", "--model",
                         "resnet18", "--data", self.data, "--model_folder", folder, "--init_from", self.weights, "--ema_decay", "0.9",
                         *OURS, "--epochs", "4"], **how)
            verified = subprocess.run([sys.executable, os.path.join(support.ROOT, "tools", "verify_ledger"), folder], capture_output=True,
                                      text=True)
            self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)
            timm.create_model("resnet18", num_classes=CLASSES, checkpoint_path=os.path.join(folder, "model_best.safetensors"))
            return losses(folder)

        whole, killed = train("whole"), train("killed", "--max_restarts", "3", kill_at="epoch 1 of 4")
        self.assertEqual(whole.keys(), killed.keys())
        for step, loss in whole.items():
            self.assertLess(abs(killed[step] - loss), 1e-4 * max(1, loss), step)

    def test_example_of_a_folder_of_images_has_the_same_losses_with_two_workers(self):
        example = os.path.join(support.ROOT, "python", "examples", "train_images.py")
        val = os.path.join(self.data, "val")
        if not os.path.lexists(val):
            os.symlink("test", val)

        def train(name, *launcher):
            folder = os.path.join(self.folder, name)
            said = self.run_it([*launcher, example, "--data", self.data, "--folder", folder, "--epochs", "2", "--image_size", str(SIDE),
                                "--batch_size", "8", "--global_batch", "16"])
            self.assertRegex(said, r"best: \d+\.\d %")
            return losses(folder)

        one = train("images1", sys.executable)
        two = train("images2", os.path.join(BIN, "mtrun"), "--standalone", "--nproc_per_node", "2")
        self.assertEqual(one.keys(), two.keys())
        for step, loss in one.items():
            self.assertLess(abs(two[step] - loss), 1e-4 * max(1, loss), step)

    def test_what_is_missing_is_one_sentence(self):
        for flags, words in ((["--model", "resnet1", "--data", self.data], "has no such model; near: "),
                             (["--model", "resnet18", "--data", self.folder], "there must be train/ and val/ (or test/) in it"),
                             (["--model", "resnet18", "--data", os.path.join(self.data, "train")], "there must be train/"),
                             (["--model", "resnet18", "--data", self.data, "--epochs", "0"], "epochs is 0, but must be"),
                             (["--model", "resnet18", "--data", self.data, "--optimizer", "none"], "Optimizer none not found")):
            said = self.run_it([sys.executable, TRAINER, *flags], 2)
            self.assertIn(words, said)
            self.assertEqual(said.count("\n"), 1, said)
        said = self.run_it([sys.executable, "-S", "-E", TRAINER, "--model", "resnet18", "--data", self.data], 2)
        self.assertIn("needs PyTorch, torchvision and timm", said)
        said = self.run_it([os.path.join(BIN, "mtrun"), "--standalone", "--trainer", "timm", "--model", "resnet18", "--data", self.folder], 2)
        self.assertIn("exit code 2 during start-up", said)
        self.assertNotIn("alike", said, "no second try")
        self.assertTrue(self.run_it([sys.executable, "-S", "-E", TRAINER, "--help"]).startswith("Trains a network of timm"))


if __name__ == "__main__":
    unittest.main()
