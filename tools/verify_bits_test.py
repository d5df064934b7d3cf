#!/usr/bin/env python3
"""Tests of tools/verify_bits: equal runs are equal whatever made them, and each difference is named. tools/check runs it.

Real runs of each world size are compared in tests/trainers/program/programs_test.cc."""
import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
TOOLS = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(TOOLS, "verify_ledger.d"))

import samples

HEAD = {"ledger": 2, "run": "00000000000000ab", "seed": 3, "size": 8, "global_batch": 4, "micro_batch": 2, "shuffle": True, "data": "d"}
WEIGHTS = {"a.weight": ("F32", [2, 3], struct.pack("<6f", 0, 1, 2, 3, 4, 5)), "b.count": ("I64", [], struct.pack("<q", 7)),
           "c.half": ("BF16", [2], struct.pack("<2H", 0x3F80, 0xC000))}


def safetensors(tensors, metadata=None):
    header, data = {"__metadata__": metadata} if metadata else {}, b""
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def changed(name, dtype, shape, raw):
    return {**WEIGHTS, name: (dtype, shape, raw)}


def step(number, generation=1, world=1, **changes):
    order = samples.Order(HEAD, number // 2)
    ids = [order.sample(p) for p in range(number % 2 * 4, number % 2 * 4 + 4)]
    return {"step": number, "epoch": number // 2, "generation": generation, "world": world, "ids": samples.digest(ids),
            **samples.gathered(ids), "loss": repr(1 / (number + 3)), "status": "applied", **changes}


class VerifyBitsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def write(self, *path_and_data):
        path = self.path(*path_and_data[:-1])
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(path_and_data[-1])

    def ledger(self, run, lines, **head):
        self.write(run, "ledger.jsonl", b"".join(json.dumps(line).encode() + b"\n" for line in [{**HEAD, **head}, *lines]))

    def checkpoint(self, run, steps, weights, history=(), threads=1, machines=("A",)):
        state = {"run": HEAD["run"], "progress": {"history": list(history), "threads": threads, "machines": machines}}
        for name, data in (("model.safetensors", weights), ("optimizer.safetensors", safetensors({})), ("DONE", b"{}"),
                           ("state.json", json.dumps(state).encode())):
            self.write(run, f"step_{steps}", name, data)

    def run_of(self, run, lines=None, weights=safetensors(WEIGHTS), history=(), threads=1, machines=("A",), **head):
        self.ledger(run, lines or [step(number) for number in range(4)], **head)
        self.checkpoint(run, 4, weights, history, threads, machines)
        self.write(run, "model.safetensors", weights)

    def compare(self, status, one="one", other="other"):
        done = subprocess.run([sys.executable, os.path.join(TOOLS, "verify_bits"), self.path(one), self.path(other)],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def differs(self, *said):
        text = self.compare(1)
        for part in said:
            self.assertIn(part, text)
        self.assertTrue(text.endswith("\nother bits\n"), text)

    def test_equal_runs_of_other_workers_and_generations(self):
        self.run_of("one")
        # Killed in step 2, which the next generation repeats; the abandoned line does not count.
        lines = [step(0, world=3), step(1, world=3), step(2, world=3, loss="9.0"), {"generation": 2, "rewind": 2, "of": 1},
                 step(2, 2, 2), step(3, 2, 2)]
        self.run_of("other", lines)
        text = self.compare(0)
        self.assertIn("steps: 4 of 4 have the same samples and loss", text)
        self.assertIn("step_4/model.safetensors: all 3 tensors are equal", text)
        self.assertIn("\nmodel.safetensors: all 3 tensors are equal\n  sha256 ", text)
        self.assertTrue(text.endswith("\nthe same bits\n"), text)

    def test_the_first_step_with_another_loss(self):
        self.run_of("one")
        last_bit = repr(struct.unpack("<d", struct.pack("<Q", struct.unpack("<Q", struct.pack("<d", 1 / 5))[0] + 1))[0])
        self.run_of("other", [step(0, world=2), step(1, world=2), step(2, world=2, loss=last_bit), step(3, world=2)])
        self.differs("steps: 3 of 4", "the first that differs is 2", f"loss 0.2 (1 worker, generation 1) and {last_bit} (2 workers, generation 1)")

    def test_losses_without_a_value(self):
        self.run_of("one", [step(0), step(1, loss="nan", status="skipped")])
        self.run_of("other", [step(0), step(1, loss="nan", status="skipped")])
        self.compare(0)
        self.run_of("other", [step(0), step(1, loss="nan", status="applied")])
        self.differs("the first that differs is 1")

    def test_a_zero_with_a_sign(self):
        self.run_of("one", weights=safetensors(changed("a.weight", "F32", [2, 3], struct.pack("<6f", 0, 1, 2, 3, 4, 5))))
        self.run_of("other", weights=safetensors(changed("a.weight", "F32", [2, 3], struct.pack("<6f", -0.0, 1, 2, 3, 4, 5))))
        self.differs("1 of 3 tensors differ", "a.weight: 1 of 6 values, the first at [0, 0]: 0.0 and -0.0")

    def test_where_a_tensor_differs(self):
        self.run_of("one")
        for tensor, said in ((("a.weight", "F32", [2, 3], struct.pack("<6f", 0, 1, 2, 3, 9, 9)), "a.weight: 2 of 6 values, the first at [1, 1]: 4.0 and 9.0"),
                             (("b.count", "I64", [], struct.pack("<q", 8)), "b.count: 1 of 1 values, the first at []: 7 and 8"),
                             (("c.half", "BF16", [2], struct.pack("<2H", 0x3F80, 0x4000)), "c.half: 1 of 2 values, the first at [1]: -2.0 and 2.0"),
                             (("c.half", "BF16", [1, 2], struct.pack("<2H", 0x3F80, 0xC000)), "c.half: BF16 [2] and BF16 [1, 2]"),
                             (("d", "U8", [1], b"x"), "d: only in the second")):
            with self.subTest(said):
                self.run_of("other", weights=safetensors(changed(*tensor)))
                self.differs(said)

    def test_values_that_python_lacks_are_shown_as_bytes(self):
        for dtype, data, seen in (("F8_E4M3", b"\x38\x39", "39 and 40"), ("C64", bytes(8) + b"9" * 8, "3939393939393939 and 40")):
            with self.subTest(dtype=dtype):
                changed_data = data[:len(data) // 2] + b"\x40" + data[len(data) // 2 + 1:]
                self.write("one.safetensors", safetensors(changed("d", dtype, [2], data)))
                self.write("other.safetensors", safetensors(changed("d", dtype, [2], changed_data)))
                self.assertIn(f"d: 1 of 2 values, the first at [1]: {seen}", self.compare(1, "one.safetensors", "other.safetensors"))

    def test_metadata_are_no_bits(self):
        self.run_of("one")
        self.run_of("other", weights=safetensors(WEIGHTS, {"when": "later"}))
        self.assertIn("the files differ in their metadata alone", self.compare(0))

    def test_an_evaluation_differs_and_times_do_not(self):
        history = [{"epoch": 1, "steps": 2, "test_loss": 0.5, "seconds": 3.0}, {"epoch": 2, "steps": 4, "test_loss": 0.25, "seconds": 9.0}]
        self.run_of("one", history=history)
        self.run_of("other", history=[{**entry, "seconds": 1.0} for entry in history])
        self.assertIn("evaluations: 2 of 2 epochs are equal", self.compare(0))
        self.run_of("other", history=[history[0], {**history[1], "test_loss": 0.26}], threads=4, machines=("A", "B"))
        self.differs("evaluations: 1 of 2 epochs are equal; the first that differs is epoch 2", "1 and with 4 threads",
                     "computed on other kinds of machines: A and A; B")

    def test_a_shorter_run(self):
        self.run_of("one")
        self.ledger("other", [step(0), step(1)])
        self.write("other", "model.safetensors", safetensors({}))  # of another step, so not compared
        text = self.compare(0)
        self.assertIn("steps: 2 of 2", text)
        self.assertIn("one has the steps from 2 to 3", text)

    def test_different_runs(self):
        self.run_of("one")
        self.run_of("other", seed=4, micro_batch=4)
        self.assertIn("they are different runs: another seed (3 and 4), --batch_size (2 and 4)", self.compare(2))

    def test_nothing_to_compare(self):
        self.run_of("one")
        self.assertIn("there is no", self.compare(2, "one", "none"))
        self.ledger("other", [])
        self.assertIn("no step, checkpoint or weights in common", self.compare(2))
        self.write("other", "ledger.jsonl", b"")
        self.assertIn("has no first line", self.compare(2))

    def test_files_of_weights(self):
        self.write("one.safetensors", safetensors(WEIGHTS))
        self.write("other.safetensors", safetensors(WEIGHTS))
        self.compare(0, "one.safetensors", "other.safetensors")
        for data in (b"", b"text", struct.pack("<Q", 1 << 60), struct.pack("<Q", 4) + b"null", struct.pack("<Q", 7) + b'{"a":1}',
                     safetensors(WEIGHTS)[:-1]):
            with self.subTest(data[:20]):
                self.write("other.safetensors", data)
                self.assertIn("is no safetensors file", self.compare(2, "one.safetensors", "other.safetensors"))


if __name__ == "__main__":
    unittest.main()
