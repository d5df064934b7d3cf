"""The training loop of a program: its Loader, steps, evaluation and files, within this process. It needs PyTorch;
tests/e2e/python_package_test.cc runs it."""
import contextlib
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock
from difflib import unified_diff

import support
import torch
from mtrun import ElasticSampler, Evaluation, Interrupted, Loader, Replica, join
from mtrun.agreement import compare, program_of
from mtrun.randomness import seed_generators, seed_of, seeded
from mtrun.tensor_files import read_head
from mtrun.torch import leave_group
from mtrun.update import Update


class Noisy(torch.utils.data.Dataset):
    """Samples [id, a random number of PyTorch, one of Python]."""

    def __init__(self, size=20):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        return torch.tensor([float(index), torch.rand(()).item(), random.random()])


class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(range(20))


def read(loader, rank, world_size):
    """Returns {(step, number): batch} of a worker's whole run."""
    got = {}
    loader.begin(rank, world_size)
    while not loader.sampler.finished:
        plan = loader.plan()
        for number, _ in plan.micro_batches:
            got[plan.step, number] = loader.next().tolist()
        loader.sampler.advance()
    return got


class LoaderTest(unittest.TestCase):
    def loader(self, dataset=None, **options):
        return Loader(dataset or Noisy(), ElasticSampler(20, 8, 3, 2), **options)

    def test_batches_do_not_depend_on_workers_or_processes(self):
        alone = read(self.loader(), 0, 1)
        for processes in (0, 2):
            for world_size in (1, 3, 5):
                shared = {}
                for rank in range(world_size):
                    shared.update(read(self.loader(num_workers=processes), rank, world_size))
                self.assertEqual(shared, alone)
        ids = sorted(sample[0] for (step, _), batch in alone.items() if step < 3 for sample in batch)
        self.assertEqual(ids, list(range(20)))
        self.assertEqual(len({sample[1] for batch in alone.values() for sample in batch}), 40, "other numbers in each epoch")

    def test_what_was_read_ahead_is_read_again_for_another_place(self):
        alone = read(self.loader(), 0, 1)
        loader = self.loader(num_workers=2)
        loader.begin(0, 2)
        loader.plan()
        loader.next()
        processes = [process.pid for process in loader._loader._iterator._workers]
        loader.sampler.advance()
        self.assertEqual(read(loader, 0, 1), {place: batch for place, batch in alone.items() if place[0] >= 1})
        self.assertEqual([process.pid for process in loader._loader._iterator._workers], processes, "they stay")

    def test_loading_processes_leave_the_group_and_end_with_the_training_process(self):
        """A request to leave goes to the whole group; a killed process closes nothing that its children have."""
        told, tells = os.pipe()
        trains = os.fork()
        if trains == 0:
            loader = self.loader(num_workers=1)
            loader.begin(0, 1)
            loader.plan()
            loader.next()
            os.write(tells, str(loader._loader._iterator._workers[0].pid).encode())
            signal.pause()
        loads = int(os.read(told, 20))
        self.assertEqual(os.getpgid(loads), loads)
        os.kill(trains, signal.SIGKILL)
        os.waitpid(trains, 0)
        for descriptor in (told, tells):
            os.close(descriptor)
        deadline = time.monotonic() + 60
        while is_running(loads):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def test_random_numbers_of_a_collate_function_and_of_whole_batches(self):
        class Whole(Noisy):
            def __getitems__(self, ids):
                return [(each, torch.rand(())) for each in ids]

        for dataset, options in ((Whole(), {}), (Noisy(), {"collate_fn": lambda samples: torch.rand(len(samples))})):
            first, second = (read(self.loader(dataset, num_workers=processes, **{"collate_fn": torch.tensor, **options}), 0, 1)
                             for processes in (0, 1))
            self.assertEqual(first, second)

    def test_what_cannot_be_read_is_refused_in_one_sentence(self):
        for error, why, make in (
                (TypeError, "^Stream is an iterable dataset.* give a map-style Dataset", lambda: self.loader(Stream())),
                (ValueError, "^the dataset has 19 samples, but the sampler was made for 20: ", lambda: self.loader(Noisy(19))),
                (TypeError, "^batch_size belongs to the sampler", lambda: self.loader(batch_size=4)),
                (TypeError, "^generator cannot be given", lambda: self.loader(generator=None)),
                (TypeError, "^set has no __getitem__", lambda: Loader({1, 2}, ElasticSampler(2, 1, 1)))):
            with self.subTest(why=why), self.assertRaisesRegex(error, why) as raised:
                make()
            self.assertNotIn("\n", str(raised.exception))
        loader = self.loader()
        loader.begin(0, 1)
        loader.dataset.size = 21
        with self.assertRaisesRegex(ValueError, "^the dataset had 20 samples and now has 21: "):
            loader.plan()


class Case(unittest.TestCase):
    def setUp(self):
        support.restore_signals(self)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        torch.manual_seed(0)
        self.model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 1))

    def replica(self, job, model=None, micro_batch=4, epochs=2, **options):
        model = model or self.model
        self.optimizer = options.pop("optimizer", None) or torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        sampler = ElasticSampler(20, 8, micro_batch, epochs)
        self.loader = Loader(Noisy(), sampler)
        return Replica(job, model, self.optimizer, sampler, **options)

    def loss(self, batch):
        return self.model(batch).pow(2).mean()

    def train(self, body=None, **options):
        """Returns the replica, and each step that was committed."""
        steps = []
        with join({}) as job:
            replica = self.replica(job, **options)
            for step in replica.train(self.loader):
                for batch in step:
                    step.backward((body or (lambda step, batch: self.loss(batch)))(step, batch))
                if step.apply(max_norm=options.get("max_norm", 1.0)):
                    steps.append(step)
            leave_group(job)
        return replica, steps


class StepTest(Case):
    def test_steps_know_their_place(self):
        replica, steps = self.train()
        self.assertEqual([step.number for step in steps], list(range(6)))
        self.assertEqual([(step.epoch, step.samples, step.begins_epoch, step.ends_epoch) for step in steps[:4]],
                         [(0, 8, True, False), (0, 8, False, False), (0, 4, False, True), (1, 8, True, False)])
        self.assertTrue(replica.complete)

    def test_the_update_is_that_of_a_plain_loop(self):
        _, steps = self.train(micro_batch=8)
        trained = [each.clone() for each in self.model.parameters()]
        self.setUp()
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        loader = Loader(Noisy(), ElasticSampler(20, 8, 8, 2))
        loader.begin(0, 1)
        for step in steps:
            loader.plan()
            batch = loader.next()
            seed_generators(seed_of(0, "pass", step.number, 0))
            optimizer.zero_grad()
            self.loss(batch).backward()
            norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.assertEqual(norm, step.norm)
            optimizer.step()
            loader.sampler.advance()
        for mine, its in zip(self.model.parameters(), trained):
            self.assertTrue(torch.equal(mine, its))

    def test_random_numbers_outside_of_the_passes_are_undisturbed(self):
        torch.manual_seed(7)
        random.seed(7)
        expected = torch.rand(1).item(), random.random()
        torch.manual_seed(7)
        random.seed(7)
        with join({}) as job:
            replica = self.replica(job, backend="gloo")
            for step in replica.train(self.loader):
                for batch in step:
                    step.backward(self.loss(batch))
                step.apply()
                break
            self.assertEqual((torch.rand(1).item(), random.random()), expected)
            leave_group(job)
        with seeded(1, 2):
            first = torch.rand(1)
        with seeded(1, 2):
            self.assertTrue(torch.equal(torch.rand(1), first))

    def test_what_is_not_a_mean_loss_is_refused_in_one_sentence(self):
        for why, body in (("^the loss has the shape \\[4, 1\\], but must be one number", lambda _, batch: self.model(batch)),
                          ("^the loss does not depend on any trained", lambda _, batch: batch.mean()),
                          ("^the loss is a float, but must be the tensor", lambda _, batch: self.loss(batch).item())):
            with self.subTest(why=why), self.assertRaisesRegex(ValueError, why) as raised:
                self.train(body)
            self.assertNotIn("\n", str(raised.exception))

    def run_loop(self, body, apply=True):
        with join({}) as job:
            replica = self.replica(job)
            for step in replica.train(self.loader):
                body(step)
                if apply:
                    step.apply()

    def test_a_loop_that_leaves_something_out_is_refused(self):
        def skips_one(step):
            for batch in step:
                step.backward(self.loss(batch))
                break

        def takes_all(step):
            for batch in step:
                step.backward(self.loss(batch))

        def twice(step):
            for batch in step:
                step.backward(self.loss(batch))
                step.backward(self.loss(batch))

        for why, body, apply in (("the loop ended after 0 of this worker's 2 micro-batches", skips_one, True),
                                 ("took a micro-batch without calling step.backward", lambda step: list(step), True),
                                 ("called twice for a micro-batch", twice, True),
                                 ("ended without step.apply()", takes_all, False)):
            with self.subTest(why=why), self.assertRaisesRegex(RuntimeError, f"^step 0: .*{why}"):
                self.run_loop(body, apply)

    def test_an_ended_generation_does_not_raise_into_the_body(self):
        applied = []
        with join({}) as job, unittest.mock.patch("mtrun.replica.Replica.add_up", side_effect=Interrupted("the end")):
            replica = self.replica(job)
            with self.assertRaisesRegex(Interrupted, "the end"):  # without mtrun no generation follows
                for step in replica.train(self.loader):
                    for batch in step:
                        step.backward(self.loss(batch))
                    applied.append(step.apply())
        self.assertEqual((applied, replica.sampler.step), ([False], 0))

    def test_an_ended_generation_ends_the_passes(self):
        passes = []
        with join({}) as job:
            replica = self.replica(job)
            with self.assertRaises(Interrupted):
                for step in replica.train(self.loader):
                    for batch in step:
                        step.backward(self.loss(batch))
                        passes.append(step.number)
                        job._stop = "the end"
                    self.assertFalse(step.apply())
        self.assertEqual(passes, [0], "of two")


class ModelTest(Case):
    def test_a_compiled_model_has_plain_names(self):
        compiled = torch.compile(self.model, backend="eager")
        with join({}) as job:
            self.assertEqual(list(self.replica(job, model=compiled)._state()["model"]), list(self.model.state_dict()))

    def test_models_that_sum_themselves_are_refused(self):
        norm = torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.SyncBatchNorm(1))
        with join({}) as job:
            with self.assertRaisesRegex(ValueError, "^1 is a SyncBatchNorm, which sums over the workers"):
                self.replica(job, model=norm)
            with self.assertRaisesRegex(ValueError, "^LBFGS computes the loss several times"):
                self.replica(job, optimizer=torch.optim.LBFGS(self.model.parameters()))

    def test_an_unused_parameter_is_named_and_a_frozen_one_is_not(self):
        self.model.register_parameter("spare", torch.nn.Parameter(torch.ones(2)))
        self.model.register_parameter("frozen", torch.nn.Parameter(torch.ones(2), requires_grad=False))
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            self.train()
        self.assertRegex(said.getvalue(), "^mtrun: the loss of .* step 0 does not depend on spare: if no loss does, freeze .*\n$")

    def test_channels_last(self):
        model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(), torch.nn.Linear(4, 1))
        model = model.to(memory_format=torch.channels_last)
        _, steps = self.train(lambda step, batch: model(batch[:, :, None, None].expand(-1, 3, 3, 3)).pow(2).mean(), model=model)
        self.assertEqual(len(steps), 6)
        self.assertTrue(model[0].weight.is_contiguous(memory_format=torch.channels_last))

    def test_a_worker_with_another_model_is_refused_and_the_others_are_not(self):
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        mine = program_of(self.model, optimizer, False)
        self.model[0].bias.requires_grad_(False)
        frozen = program_of(self.model, optimizer, False)
        for programs, others in (([mine, frozen, mine], {1: 0}), ([frozen, mine, mine], {0: 1}), ([mine, frozen], {1: 0}),
                                 ([[0, *mine[1:]], [1, *frozen[1:]], [0, *mine[1:]]], {0: 1, 2: 1})):
            for rank in range(len(programs)):
                if rank in others:
                    with self.assertRaisesRegex(ValueError, f"^rank {rank} has another model than rank {others[rank]}: the set of "
                                                            "frozen parameters differ"):
                        compare(rank, programs)
                else:
                    compare(rank, programs)


class ScalerTest(Case):
    def test_steps_with_infinite_gradients_are_skipped_and_recorded(self):
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=100)
        replica, steps = self.train(lambda step, batch: self.loss(batch) * (float("inf") if step.number in (1, 2) else 1),
                                    scaler=scaler, folder=self.folder)
        self.assertEqual([step.skipped for step in steps], [False, True, True, False, False, False])
        self.assertEqual(scaler.get_scale(), 1.0)
        with open(os.path.join(self.folder, "ledger.jsonl"), encoding="utf-8") as file:
            self.assertEqual([json.loads(line).get("status") for line in file],
                             [None, "applied", "skipped", "skipped", "applied", "applied", "applied"])
        self.assertEqual(replica._state()["more"]["scaler"]["scale"], 1.0)
        verify(self, self.folder)

    def test_a_worker_without_a_micro_batch_in_the_first_step_applies_it_too(self):
        weight = torch.nn.Parameter(torch.ones(2))
        update = Update(torch.optim.SGD([weight], lr=0.5), torch.amp.GradScaler("cpu", init_scale=4.0))
        weight.grad = torch.full((2,), 4.0)  # the others' sum, scaled
        skipped, norm = update.apply(0, [weight], max_norm=10.0)
        self.assertFalse(skipped)
        self.assertAlmostEqual(norm.item(), 2**0.5, places=6)
        self.assertEqual(weight.tolist(), [0.5, 0.5])

    def test_a_loss_that_is_never_finite_ends_the_run(self):
        with self.assertRaisesRegex(FloatingPointError, "^step 64: gradients are not finite at any loss scale for 65 steps"):
            self.train(lambda step, batch: self.loss(batch) * float("inf"), epochs=40,
                       scaler=torch.amp.GradScaler("cpu", init_scale=2.0**16))


class EvaluationTest(Case):
    def evaluation(self, **options):
        def measure(batch):
            self.modes.append((self.model.training, torch.is_grad_enabled()))
            return {"loss": batch[:, 0].sum() * self.scale.pop(0), "ids": batch[:, 0].long().sum(), "count": len(batch)}

        self.modes, self.scale = [], [1.0] * 1000
        return Evaluation(self.model, Noisy(11), measure, micro_batch=4, **options)

    def test_each_sample_counts_once_and_modes_are_restored(self):
        results = []
        evaluation = self.evaluation(on_result=results.append)
        self.model[1].eval()
        self.train(evaluation=evaluation)
        self.assertEqual([(each.epoch, each.steps, each.samples, each.sums) for each in results],
                         [(1, 3, 11, {"loss": 55.0, "ids": 55, "count": 11}), (2, 6, 11, {"loss": 55.0, "ids": 55, "count": 11})])
        self.assertEqual(results[0].means["ids"], 5.0)
        self.assertEqual(set(self.modes), {(False, False)})
        self.assertEqual((self.model.training, self.model[0].training, self.model[1].training), (True, True, False))

    def test_the_run_ends_after_epochs_without_improvement_and_that_is_proven(self):
        evaluation = self.evaluation(monitor="loss", mode="min", patience=2)
        self.scale = [5.0] * 3 + [1.0] * 3 + [2.0] * 3 + [1.0] * 300
        replica, steps = self.train(evaluation=evaluation, epochs=9, folder=self.folder)
        self.assertEqual((len(steps), evaluation.best.epoch, replica.complete), (12, 2, True))
        with open(os.path.join(self.folder, "model_best.safetensors"), "rb") as file:
            best = read_head(file, "model_best.safetensors")
        self.assertEqual((best.metadata, sorted(best.records)), (
            {"format": "pt", "epoch": "2", "steps": "6", "means": json.dumps(evaluation.best.means)}, sorted(self.model.state_dict())))
        verify(self, self.folder)
        with open(os.path.join(self.folder, "metrics.jsonl"), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        self.assertEqual([line["test_loss"] for line in lines if "eval" in line], [25.0, 5.0, 10.0, 5.0])
        self.assertEqual([line["step"] for line in lines if "step" in line], list(range(12)))
        again, steps = self.train(evaluation=self.evaluation(monitor="loss", mode="min", patience=2), epochs=9, folder=self.folder)
        self.assertEqual((steps, again.complete), ([], True))

    def test_a_worker_that_lacks_the_result_makes_all_evaluate_again(self):
        """The others finished the sums of which one was told nothing."""
        evaluation, told = self.evaluation(), []
        with join({}) as job:
            replica = self.replica(job, evaluation=evaluation)
            for step in replica.train(self.loader):
                for batch in step:
                    step.backward(self.loss(batch))
                step.apply()
                if step.begins_epoch and step.number and not told:
                    told.append(len(self.modes))
                    replica.sampler.step, replica._evaluations_agree = 3, False  # as after a regroup at that position
                    replica._evaluate()
                    self.assertEqual(len(self.modes), told[0], "all have it")
                    replica._evaluations_agree = False
                    with unittest.mock.patch.object(evaluation, "has", side_effect=[False, False]):
                        replica._evaluate()
                    self.assertEqual(len(self.modes), 2 * told[0])
                    replica.sampler.step = 4
            leave_group(job)
        self.assertEqual([each.steps for each in evaluation.results], [3, 6])


class MetricsTest(Case):
    def lines(self):
        with open(os.path.join(self.folder, "metrics.jsonl"), encoding="utf-8") as file:
            return [json.loads(line) for line in file if line.endswith("}\n")]

    def test_a_run_that_continues_cancels_later_lines(self):
        self.train(folder=self.folder, checkpoint_steps=2)
        shutil.rmtree(os.path.join(self.folder, "replica_6"))
        with open(os.path.join(self.folder, "metrics.jsonl"), "a", encoding="utf-8") as file:
            file.write('{"step":6,"epo')
        self.train(folder=self.folder, checkpoint_steps=2)
        kinds = [(name, line[name]) for line in self.lines() for name in ("generation", "step", "rewind") if name in line]
        self.assertEqual(kinds, [("generation", 1), *(("step", n) for n in range(6)), ("rewind", 4), ("generation", 2),
                                 ("step", 4), ("step", 5)])
        verify(self, self.folder)


class ExampleTest(unittest.TestCase):
    def test_a_script_for_ddp_changes_in_ten_lines(self):
        def code(name):
            with open(os.path.join(support.ROOT, "python", "examples", name), encoding="utf-8") as file:
                return file.read().split('"""', 2)[2].splitlines()

        changes = [line for line in unified_diff(code("train_ddp.py"), code("train_ddp_elastic.py"), n=0, lineterm="")][2:]
        added = [line for line in changes if line.startswith("+")]
        self.assertEqual(len(added), 10, added)
        with open(os.path.join(support.ROOT, "docs", "python.md"), encoding="utf-8") as file:
            page = file.read()
        for line in changes:
            if not line.startswith("@"):
                self.assertIn(line, page)


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().rpartition(") ")[2][0] != "Z"
    except FileNotFoundError:
        return False


def verify(case, folder):
    done = subprocess.run([sys.executable, os.path.join(support.ROOT, "tools", "verify_ledger"), folder], capture_output=True, text=True)
    case.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
