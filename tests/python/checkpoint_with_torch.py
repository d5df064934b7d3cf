"""The format of a checkpoint, and what a crash at any point of a save leaves. It needs PyTorch, safetensors and NumPy;
tests/e2e/python_package_test.cc runs it."""
import collections
import contextlib
import errno
import inspect
import io
import json
import math
import os
import shutil
import tempfile
import unittest
import unittest.mock

import safetensors.torch
import support  # the package's path
import torch
from mtrun import ElasticSampler, checkpoint_folder, join
from mtrun.checkpoints import Checkpoints
from mtrun.replica import Replica
from mtrun.snapshot import Snapshot
from mtrun.state_json import REST, Encoder, decode
from mtrun.tensor_files import Malformed, read_head
from mtrun.tensor_io import DTYPES, read_tensors, write_tensors
from mtrun.tensor_memory import memory_of
from mtrun.torch import leave_group
from replica_workers import checkpoints_in

FIXTURE = os.path.join(support.ROOT, "tests", "python", "testdata", "replica_4.pt")
FIXTURE_LOSSES = {4: 0.24201239103854694, 5: 0.23896082112326128}  # of the undisturbed run that wrote it


class Case(unittest.TestCase):
    def setUp(self):
        support.restore_signals(self)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, *names):
        return os.path.join(self.folder, *names)


def through_json(value):
    """Returns the value as it is read, and the Encoder."""
    encoder = Encoder()
    text = json.dumps(encoder.encode(value, ("more", "it")), allow_nan=False)
    return decode(json.loads(text), encoder.tensors), encoder


def is_same(one, other):
    """Returns whether two values are of the same types and equal, NaN included."""
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and one.stride() == other.stride() and torch.equal(one, other)
    if isinstance(one, dict):
        return list(one) == list(other) and all(is_same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(is_same, one, other))
    return one == other or (isinstance(one, float) and math.isnan(one) and math.isnan(other))


def schedules(optimizer):
    """Returns one of each of PyTorch's schedules."""
    given = {"StepLR": {"step_size": 3}, "MultiStepLR": {"milestones": [2, 5, 5]}, "LambdaLR": {"lr_lambda": lambda epoch: 0.9},
             "MultiplicativeLR": {"lr_lambda": lambda epoch: 0.9}, "ExponentialLR": {"gamma": 0.9},
             "CosineAnnealingLR": {"T_max": 10}, "CosineAnnealingWarmRestarts": {"T_0": 4},
             "CyclicLR": {"base_lr": 0.1, "max_lr": 1.0, "cycle_momentum": False}, "OneCycleLR": {"max_lr": 1.0, "total_steps": 10}}
    for name, kind in inspect.getmembers(torch.optim.lr_scheduler, inspect.isclass):
        if issubclass(kind, torch.optim.lr_scheduler.LRScheduler) and not name.startswith("_") and name not in (
                "LRScheduler", "SequentialLR", "ChainedScheduler"):
            yield kind(optimizer, **given.get(name, {}))


class ValuesTest(Case):
    def test_values_come_back_with_their_types(self):
        values = [None, True, 1, -2**70, 0.1, math.inf, -math.inf, math.nan, "text", "$tensor", b"\x00\xff", bytearray(b"x"), 1 - 2j, (),
                  (1, (2,)), [1, [2]], {1, 2}, {}, {"a": 1}, {"$tensor": 1}, {0: {"a": 1}}, {(1, "a"): None, True: 1.5, "b": 2},
                  collections.OrderedDict([("b", 1), ("a", 2)]), collections.Counter({3: 2, 5: 1}), torch.float8_e4m3fn,
                  torch.device("cuda", 1), torch.Size([2, 3])]
        for value in values:
            with self.subTest(value=value):
                self.assertTrue(is_same(through_json(value)[0], value), through_json(value)[0])

    def test_what_json_cannot_hold_is_named(self):
        class Own(dict):
            pass

        for value, what in (({"a": [1, {"b": object()}]}, "it.a.1.b is of the type builtins.object"),
                            (Own(), "it is of the type .*Own"), ({object(): 1}, "it.a key is of the type"),
                            ({"a": torch.eye(2).to_sparse()}, "it.a is a tensor of the kind Tensor torch.sparse_coo")):
            with self.subTest(what=what), self.assertRaisesRegex(ValueError, f"^{what}.* which a checkpoint cannot hold: let its"):
                through_json(value)

    def test_every_schedule_of_pytorch_comes_back(self):
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0, momentum=0.9)
        found = list(schedules(optimizer))
        parts = [torch.optim.lr_scheduler.ConstantLR(optimizer), torch.optim.lr_scheduler.StepLR(optimizer, 2)]
        found += [torch.optim.lr_scheduler.SequentialLR(optimizer, parts, [3]), torch.optim.swa_utils.SWALR(optimizer, 0.1)]
        self.assertGreater(len(found), 13)
        for each in found:
            with self.subTest(schedule=type(each).__name__):
                optimizer.step()
                each.step(*([1.0] if isinstance(each, torch.optim.lr_scheduler.ReduceLROnPlateau) else []))
                self.assertTrue(is_same(through_json(each.state_dict())[0], each.state_dict()), each.state_dict())

    def test_every_optimizer_of_pytorch_comes_back(self):
        for name, kind in inspect.getmembers(torch.optim, inspect.isclass):
            if not issubclass(kind, torch.optim.Optimizer) or name in ("Optimizer", "SparseAdam", "LBFGS"):
                continue
            with self.subTest(optimizer=name):
                weight = torch.nn.Parameter(torch.ones(2, 3))
                optimizer = kind([weight], lr=torch.tensor(0.1) if name == "Adam" else 0.1)
                weight.grad = torch.full((2, 3), 0.5)
                optimizer.step()
                self.assertTrue(is_same(through_json(optimizer.state_dict())[0], optimizer.state_dict()))

    def test_tensors_that_share_memory_are_kept_once(self):
        tensor, view = torch.arange(6.0), torch.arange(6.0)
        back, encoder = through_json({"a": tensor, "b": tensor.detach(), "c": view, "d": view[:3], "e": [torch.empty(0)] * 2})
        self.assertEqual(sorted(encoder.tensors[REST]), ["it/a", "it/c", "it/d", "it/e.0", "it/e.1"])
        self.assertIs(back["a"], back["b"])

    def test_names_that_meet_are_told_apart(self):
        _, encoder = through_json({"a": {"b": torch.zeros(1)}, "a.b": torch.ones(1)})
        self.assertEqual(sorted(encoder.tensors[REST]), ["it/a.b", "it/a.b~2"])


TENSORS = {
    "plain": torch.arange(6.0).reshape(2, 3), "transposed": torch.arange(6.0).reshape(2, 3).t(), "expanded": torch.ones(1).expand(3, 2),
    "every other": torch.arange(10)[::2], "scalar": torch.tensor(7.0), "empty": torch.empty(0, 3), "bool": torch.tensor([True, False]),
    "channels last": torch.arange(48.0).reshape(2, 3, 2, 4).to(memory_format=torch.channels_last),
    "conjugated": torch.tensor([1 + 2j]).conj(), "negative": torch.tensor([1 + 2j]).conj().imag,
    "part": torch.arange(100.0)[7:9]}
OTHERS = {"double complex": torch.tensor([[1 + 2j, 3j]], dtype=torch.complex128), "no exponent": torch.tensor(2.0).to(torch.float8_e8m0fnu)}


def of_type(dtype):
    return torch.tensor([[1, 0, 3]]).to(dtype)


def bytes_of(tensor):
    row = tensor.resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
    return bytes(memory_of(row))


class TensorsTest(Case):
    def written(self, tensors):
        path = self.path("it.safetensors")
        with open(path, "wb") as file:
            write_tensors(file, tensors, {"steps": "3"})
        return path

    def test_the_safetensors_package_reads_them(self):
        tensors = {**TENSORS, **{name: of_type(dtype) for name, dtype in DTYPES.items()}}
        path = self.written(tensors)
        read = safetensors.torch.load_file(path)
        self.assertEqual(read.keys(), tensors.keys())
        for name, tensor in tensors.items():
            self.assertEqual((read[name].dtype, read[name].shape), (tensor.dtype, tensor.shape), name)
            self.assertEqual(bytes_of(read[name]), bytes_of(tensor), name)
        with safetensors.safe_open(path, "pt") as file:
            self.assertEqual(file.metadata(), {"format": "pt", "steps": "3"})
        with open(path, "rb") as file:
            self.assertTrue(all(record.begin % (DTYPES[record.dtype].itemsize) == 0 for record in read_head(file, path).records.values()))

    def test_its_files_are_read(self):
        tensors = {name: tensor.resolve_conj().resolve_neg().contiguous() for name, tensor in TENSORS.items()}
        safetensors.torch.save_file(tensors, self.path("theirs"))
        with open(self.path("theirs"), "rb") as file:
            read = read_tensors(file, "theirs")
        self.assertTrue(all(torch.equal(read[name], tensor) for name, tensor in tensors.items()))

    def test_types_and_strides_come_back(self):
        state = {"sampler": {"step": 3}, "model": {**TENSORS, **OTHERS}, "optimizer": {**TENSORS, **OTHERS},
                 "more": {name: of_type(dtype) for name, dtype in DTYPES.items()}}
        for taken in (state, Snapshot().take(state)):
            checkpoint_folder.write(self.path("replica_3"), taken)
            read = checkpoint_folder.read(self.path("replica_3"))
            for part in ("model", "optimizer", "more"):
                for name, tensor in state[part].items():
                    with self.subTest(part=part, name=name):
                        back = read[part][name]
                        self.assertEqual((back.dtype, back.stride()), (tensor.dtype, torch.empty_like(tensor, device="meta").stride()))
                        self.assertEqual(bytes_of(back), bytes_of(tensor))
            shutil.rmtree(self.path("replica_3"))

    def test_malformed_files_are_refused(self):
        with open(self.written({"a": torch.ones(2), "b": torch.ones(3, dtype=torch.int8)}), "rb") as file:
            whole = file.read()
        for old, new, what in ((whole[:8], bytes(7) + b"\x7f", "no safetensors file$"), (b"[2]", b"[3]", "has 8 bytes"),
                               (b"[0,8]", b"[1,9]", "begins at byte"), (b"[8,11]", b"[7,10]", "begins at byte"),
                               (b'"F32"', b'"F16"', "has 8 bytes"), (b"[2]", b"2  ", "not iterable"), (b"[2]", b"[-2]", "described"),
                               (whole[-1:], b"", "its tensors end at")):
            with self.subTest(new=new), self.assertRaisesRegex(Malformed, what):
                at = whole.rindex(old) if len(old) == 1 else whole.index(old)
                with open(self.path("it"), "wb") as file:
                    changed = whole[:at] + new + whole[at + len(old):]
                    length = int.from_bytes(whole[:8], "little") + len(new) - len(old)
                    file.write(changed if old in (whole[:8], whole[-1:]) else length.to_bytes(8, "little") + changed[8:])
                with open(self.path("it"), "rb") as file:
                    read_tensors(file, "it")


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = torch.nn.Embedding(4, 3), torch.nn.Linear(3, 4, bias=False)
        self.norm = torch.nn.BatchNorm1d(3)
        self.head.weight = self.embedding.weight

    def forward(self, ids):
        return self.head(self.norm(self.embedding(ids)))


class ReplicaFilesTest(Case):
    def train(self, **more):
        torch.manual_seed(0)
        self.model = Tied()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.1)
        self.ema = torch.optim.swa_utils.AveragedModel(self.model)
        with join({}) as job:
            run = Replica(job, self.model, self.optimizer, ElasticSampler(12, 4, 4), folder=self.folder,
                          more={"ema": self.ema, **more})
            for _ in run.steps(lambda ids: self.model(torch.tensor(ids) % 4).pow(2).mean()):
                self.ema.update_parameters(self.model)
            leave_group(job)

    def test_weights_are_read_without_mtrun(self):
        self.train()
        model = Tied()
        self.assertEqual(model.load_state_dict(safetensors.torch.load_file(self.path("replica_3", "model.safetensors"))),
                         ([], []))
        for name, value in self.model.state_dict().items():
            self.assertTrue(torch.equal(model.state_dict()[name], value))

    def test_the_json_says_how_the_optimizer_belongs_together(self):
        self.train()
        tensors = safetensors.torch.load_file(self.path("replica_3", "optimizer.safetensors"))
        with open(self.path("replica_3", "state.json"), encoding="utf-8") as file:
            state = json.load(file)
        for number, name in enumerate(["embedding.weight", "norm.weight", "norm.bias"]):
            for kind, value in self.optimizer.state[dict(self.model.named_parameters())[name]].items():
                self.assertTrue(torch.equal(tensors[f"optimizer/{name}.{kind}"], value))
                entry = dict(dict(state["optimizer"]["state"]["$dict"])[number])[kind]
                self.assertEqual(entry, {"$tensor": ["optimizer.safetensors", f"optimizer/{name}.{kind}"]})
        self.assertEqual(state["optimizer"]["param_groups"][0]["betas"], {"$tuple": [0.9, 0.999]})
        self.assertTrue(torch.equal(tensors["ema/module.embedding.weight"], self.ema.module.embedding.weight))
        self.assertEqual((state["parameters"], state["sampler"]["step"], state["lineage"]), (
            ["embedding.weight", "norm.weight", "norm.bias"], 3, [[1, 0]]))

    def test_state_dict_keeps_its_versions(self):
        self.train()
        metadata = checkpoint_folder.read(self.path("replica_3"))["model"]._metadata
        self.assertEqual(metadata, self.model.state_dict()._metadata)
        self.assertEqual(metadata["norm"], {"version": 2})

    def test_one_of_an_earlier_release_is_continued_exactly(self):
        shutil.copy(FIXTURE, self.folder)
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2), torch.nn.Linear(2, 1)).double()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.5)
        schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 4], 0.5)
        losses = {}
        with join({}) as job:
            run = Replica(job, model, optimizer, ElasticSampler(24, 4, 4), folder=self.folder, checkpoint_steps=1,
                          more={"schedule": schedule})
            for taken in run.steps(lambda ids: model(
                    torch.tensor([[float(i), 1.0 + i % 3] for i in ids], dtype=torch.float64)).pow(2).mean()):
                schedule.step()
                losses[taken.step] = taken.loss
            leave_group(job)
        self.assertEqual(losses.keys(), FIXTURE_LOSSES.keys())
        for step, loss in FIXTURE_LOSSES.items():
            self.assertAlmostEqual(losses[step], loss, delta=1e-12)
        self.assertEqual(checkpoints_in(self.folder), ["replica_5", "replica_6"], "the old one is removed like any other")


def state(step, value, run="0" * 16):
    return {"run": run, "generation": 1, "lineage": [[1, 0]], "sampler": {"step": step}, "model": {"a": torch.full((3,), float(value))},
            "optimizer": {"state": {0: {"m": torch.full((3,), value + 0.5)}}}}


class Log:
    """Records calls of `os`, and ends the process before the call of number `last`."""

    def __init__(self, last=None):
        self.calls, self._last = [], last

    def patched(self):
        stack = contextlib.ExitStack()
        for name in ("mkdir", "fsync", "rename", "replace", "rmdir", "unlink", "remove"):
            stack.enter_context(unittest.mock.patch.object(os, name, self._wrapped(name, getattr(os, name))))
        return stack

    def _wrapped(self, name, call):
        def logged(*arguments, **more):
            if len(self.calls) == self._last:
                os._exit(7)
            target = os.readlink(f"/proc/self/fd/{arguments[0]}") if name == "fsync" else arguments[name in ("rename", "replace")]
            self.calls.append((name, os.path.basename(target)))
            return call(*arguments, **more)
        return logged


class CrashTest(Case):
    def test_data_are_on_the_disk_before_their_names(self):
        checkpoints = Checkpoints(self.folder)
        for step in (1, 2):
            checkpoints.save(state(step, step), lambda: None)
        log = Log()
        with log.patched():
            checkpoints.save(state(3, 3), lambda: log.calls.append(("confirm", "")))
        partial = os.path.basename(checkpoints._partial(3))
        begin = log.calls.index(("mkdir", partial))
        self.assertEqual(log.calls[begin:begin + 9], [
            ("mkdir", partial), ("fsync", "model.safetensors"), ("fsync", "optimizer.safetensors"), ("fsync", "state.json"),
            ("fsync", "DONE"), ("fsync", partial), ("confirm", ""), ("rename", "replica_3"), ("fsync", os.path.basename(self.folder))])
        later = [call for call in log.calls[begin + 9:] if call[0] == "rename"]
        self.assertEqual(later, [("rename", os.path.basename(checkpoints._partial(1)))], "removed last, under another name")
        self.assertEqual(checkpoints_in(self.folder), ["replica_2", "replica_3"])

    def crash_points(self, saves):
        """Yields a folder after `saves(folder)` has ended before each of its calls in turn, and its number; at last whole."""
        for last in range(100):
            with tempfile.TemporaryDirectory() as folder:
                pid = os.fork()
                if pid == 0:
                    with contextlib.redirect_stderr(io.StringIO()):
                        saves(folder, last)
                    os._exit(0)
                status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                yield folder, last
                if status == 0:
                    return
                self.assertEqual(status, 7)
        self.fail("more than 100 calls")

    def test_a_crash_at_any_point_leaves_an_intact_one(self):
        def saves(folder, last):
            checkpoints = Checkpoints(folder)
            for step in (1, 2):
                checkpoints.save(state(step, step), lambda: None)
            with Log(last).patched():
                checkpoints.save(state(3, 3), lambda: None)

        points = 0
        for folder, _ in self.crash_points(saves):
            points += 1
            with self.subTest(point=points), unittest.mock.patch("sys.stderr", io.StringIO()) as said:
                loaded = []
                self.assertTrue(Checkpoints(folder).load_newest(loaded.append))
                step = loaded[0]["sampler"]["step"]
                self.assertIn(step, (2, 3))
                self.assertEqual(loaded[0]["model"]["a"].tolist(), [step] * 3)
                self.assertEqual(said.getvalue(), "", "no half checkpoint has a name")
                with unittest.mock.patch("mtrun.checkpoints.ABORTED_SECONDS", -1):
                    Checkpoints(folder).save(state(4, 4), lambda: None)
                self.assertIn(sorted(os.listdir(folder)), (["replica_2", "replica_4"], ["replica_3", "replica_4"]))
        self.assertGreater(points, 12)

    def replaced(self, patch=contextlib.nullcontext):
        def saves(folder, last):
            checkpoints = Checkpoints(folder)
            for step in (1, 2):
                checkpoints.save(state(step, step), lambda: None)
            with patch(), Log(last).patched():
                checkpoints.save(state(2, 7), lambda: None)

        seen = []
        for folder, _ in self.crash_points(saves):
            loaded = []
            self.assertTrue(Checkpoints(folder).load_newest(loaded.append))
            seen.append(loaded[0]["model"]["a"][0].item())
            left = checkpoints_in(folder)
        self.assertEqual(left, ["replica_1", "replica_2"])
        return seen

    def test_one_of_the_same_step_is_exchanged_at_once(self):
        seen = self.replaced()
        self.assertEqual((set(seen), seen[-1]), ({2.0, 7.0}, 7.0))

    def test_where_names_cannot_be_exchanged_the_one_before_counts_for_a_moment(self):
        refuses = OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        seen = self.replaced(lambda: unittest.mock.patch("mtrun.files.exchange", side_effect=refuses))
        self.assertEqual((set(seen), seen.count(1.0), seen[-1]), ({2.0, 1.0, 7.0}, 1, 7.0))

    def test_a_folder_that_its_writer_removes_while_it_is_read_is_not_damaged(self):
        checkpoints, read = Checkpoints(self.folder), checkpoint_folder.read_tensors
        for step in (1, 2):
            checkpoints.save(state(step, step), lambda: None)

        def removed(*arguments):
            shutil.rmtree(self.path("replica_2"), ignore_errors=True)
            return read(*arguments)

        loaded = []
        with unittest.mock.patch("mtrun.checkpoint_folder.read_tensors", removed), unittest.mock.patch("sys.stderr", io.StringIO()) as said:
            self.assertTrue(checkpoints.load_newest(loaded.append))
        self.assertEqual((loaded[0]["sampler"]["step"], said.getvalue()), (1, ""))


if __name__ == "__main__":
    unittest.main()
