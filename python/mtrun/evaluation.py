"""Exact evaluation on all workers: each sample once, whatever their number."""
from __future__ import annotations

import contextlib
import json
import math
import os
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from mtrun.files import replacing
from mtrun.loader import Loader
from mtrun.metrics import finite
from mtrun.randomness import restored, seed_generators, seed_of
from mtrun.row_sum import RowSum
from mtrun.sampler import ElasticSampler
from mtrun.step_sums import StepSums
from mtrun.tensor_io import write_tensors
from mtrun.torch import interruptible
from mtrun.waits import await_call

if TYPE_CHECKING:
    from mtrun.replica import Replica, Step

BEST = "model_best.safetensors"
MODES = ("max", "min")


class Evaluation:
    """Evaluates a model on `dataset` after each epoch, before its next step. The workers share the micro-batches of
    `micro_batch` samples; each of them has the sums over all.

    `measure(batch)`: returns a dict of numbers or tensors that add up over micro-batches, for example `{"loss":
    criterion(model(images), labels) * len(labels), "accuracy": (guesses == labels).sum()}`. They are summed in int64
    if they are whole numbers or booleans, else in float64, in an order that does not depend on the workers. It runs
    under torch.no_grad() with `model` in evaluation mode.

    `monitor`: the name whose mean per sample is compared, larger is better with `mode` "max", smaller with "min". The
    weights of the best epoch are in `model_best.safetensors` of the run's folder, with `epoch`, `steps` and `means` in its
    metadata. `patience`: ends the run after so many epochs without an improvement; 0: never. `on_result`: called on
    every worker with each Result, after it is recorded. `split`: "test", or "val" for images that choose the epoch.
    Other options: as for Loader. ValueError if `mode`, `split` or `patience` is malformed."""

    def __init__(self, model: torch.nn.Module, dataset: torch.utils.data.Dataset, measure: Callable[[Any], dict[str, Any]], *,
                 micro_batch: int = 64, monitor: str | None = None, mode: str = "max", patience: int = 0, split: str = "test",
                 on_result: Callable[[Result], None] | None = None, **loading: Any) -> None:
        if mode not in MODES or split not in ("test", "val"):
            raise ValueError(f"mode is {mode!r} and split {split!r}, but must be \"max\" or \"min\", and \"test\" or \"val\"")
        if not isinstance(patience, int) or patience < 0 or (patience and not monitor):
            raise ValueError(f"patience is {patience!r}, but must be a whole number of epochs; it needs `monitor`")
        size = len(dataset) if hasattr(dataset, "__len__") else 1
        self._order = ElasticSampler(max(size, 1), max(size, 1), micro_batch, shuffle=False)
        self._loader = Loader(dataset, self._order, keep_workers=False, **loading)
        self._model, self._measure, self._on_result = model, measure, on_result
        self.monitor, self.mode, self.patience, self._split = monitor, mode, patience, split
        self._results: list[dict[str, Any]] = []  # one for each evaluated epoch
        self._training: dict[str, Any] = {}  # sums of the running epoch's steps

    # ---- results
    @property
    def results(self) -> list[Result]:
        """Returns the Results so far, one for each evaluated epoch."""
        return [Result(**entry) for entry in self._results]

    @property
    def best(self) -> Result | None:
        """Returns the Result with the best mean of `monitor`, the first of equal ones; None if there is none."""
        monitor = self.monitor
        if monitor is None:
            return None
        values = [each for each in self.results if math.isfinite(each.means[monitor])]
        better = max if self.mode == "max" else min
        return better(values, key=lambda each: float(each.means[monitor]), default=None)

    @property
    def is_best(self) -> bool:
        """Returns whether the last result is the best one."""
        return self.best is not None and self.best.steps == self._results[-1]["steps"]

    @property
    def stops(self) -> bool:
        """Returns whether `patience` epochs have brought no improvement. It is equal on all workers: it follows from
        their equal results."""
        if not self.patience or not self._results:
            return False
        epoch = self._results[-1]["epoch"]
        return epoch - (self.best.epoch if self.best else 0) >= self.patience

    def state_dict(self) -> dict[str, Any]:
        """Returns the results so far and the sums of the running epoch, as numbers and texts."""
        return {"results": self._results, "training": self._training}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from what state_dict() returned. KeyError if it is something else."""
        self._results, self._training = list(state["results"]), dict(state["training"])

    # ---- the replica
    def is_due(self, sampler: ElasticSampler) -> bool:
        """Returns whether an epoch has just ended."""
        return sampler.step > 0 and sampler.step % sampler.steps_per_epoch == 0

    def has(self, steps: int) -> bool:
        """Returns whether the result after `steps` steps is known."""
        return bool(self._results) and self._results[-1]["steps"] == steps

    def forget(self, steps: int) -> None:
        """Forgets the result after `steps` steps, because another worker lacks it."""
        self._results = [each for each in self._results if each["steps"] < steps]

    def count(self, taken: Step) -> None:
        """Adds a committed Step to the figures of its epoch."""
        if self._training.get("epoch") != taken.epoch:
            self._training = {"epoch": taken.epoch, "loss": 0.0, "samples": 0, "since": time.time()}
        if not taken.skipped:
            self._training["loss"] += taken.loss * taken.samples
            self._training["samples"] += taken.samples

    def run(self, replica: Replica) -> None:
        """Evaluates at the replica's position and records the Result. Interrupted if the generation ends."""
        began, trained = time.time(), self._training
        sums = self._sum(replica)
        samples = trained["samples"]
        self._results = self._results + [{
            "epoch": trained["epoch"] + 1, "steps": replica.sampler.step, "samples": self._order.size,
            "sums": {name: value.tolist() for name, value in sums.items()},
            "train_loss": trained["loss"] / samples if samples else math.nan, "seconds": began - trained["since"]}]
        if self.monitor and self.monitor not in sums:
            raise ValueError(f"measure returned {', '.join(sums)}, but monitor is {self.monitor!r}")

    def tell(self) -> None:
        """Tells the program the last result."""
        if self._on_result:
            self._on_result(self.results[-1])

    # ---- the writer
    def line(self) -> dict[str, Any]:
        """Returns the last result's line of metrics.jsonl."""
        last = self.results[-1]
        means = {f"{self._split}_{name}": finite(value) for name, value in last.means.items() if isinstance(value, float)}
        return {"eval": last.epoch, "steps": last.steps, "train_loss": finite(last.train_loss), **means,
                "seconds": round(last.seconds, 6)}

    def report(self) -> dict[str, Any]:
        """Returns the figures of report.json."""
        if not self._results:
            return {}
        chosen = self.best or self.results[-1]
        figures = {f"{prefix}_{name}": finite(chosen.means[name]) for name in ("loss", "accuracy") if name in chosen.means
                   for prefix in ("test", "best")}
        return {**figures, "tested_epoch": chosen.epoch, **({"best_epoch": self.best.epoch} if self.best else {}),
                "chosen_by_validation": self._split == "val"}

    def weights(self) -> dict[str, torch.Tensor]:
        """Returns the model's weights by name."""
        model = getattr(self._model, "_orig_mod", self._model)
        return {name: value for name, value in model.state_dict().items() if isinstance(value, torch.Tensor)}

    def save_best(self, folder: str, weights: dict[str, torch.Tensor]) -> None:
        """Saves the weights of the last result atomically."""
        last = self.results[-1]
        with replacing(os.path.join(folder, BEST)) as file:
            write_tensors(file, weights, {"epoch": str(last.epoch), "steps": str(last.steps), "means": json.dumps(last.means)})

    # ---- the sums
    def _sum(self, replica: Replica) -> dict[str, torch.Tensor]:
        job = replica.job
        self._loader.begin(job.rank, job.world_size, replica.node)
        plan = self._loader.plan()
        whole: dict[str, torch.Tensor] = {}  # numbers: exact in any order
        order = replica.sums_of(plan, self._order.micro_batches_of_step)
        real = RowSum(order)
        shapes: dict[str, Any] = {}
        with restored(), _evaluating(self._model), torch.no_grad():
            for place, (number, _) in enumerate(plan.passes):
                job.check()
                job.still_works(replica.sampler.epoch, replica.sampler.step, replica.sampler.samples)
                with job.loads():
                    batch = self._loader.next()
                seed_generators(seed_of(replica.sampler.seed, "evaluation", number))
                measured = {name: _exact(value) for name, value in self._measure(batch).items()}
                if replica.interrupted:
                    raise replica.interrupted
                if place >= len(plan.micro_batches):
                    continue
                now = {name: (str(value.dtype), list(value.shape)) for name, value in measured.items()}
                if shapes and now != shapes:
                    raise ValueError(f"measure returned {now} for a micro-batch, but {shapes} for the one before")
                shapes = now
                floats = [value.reshape(-1).cpu() for value in measured.values() if value.is_floating_point()]
                real.add(torch.cat(floats) if floats else torch.zeros(0, dtype=torch.float64))
                for name, value in measured.items():
                    if not value.is_floating_point():
                        whole[name] = whole.get(name, 0) + value
        return self._over_all(replica, order, shapes, whole, real)

    def _over_all(self, replica: Replica, order: StepSums, mine: dict[str, Any], whole: dict[str, torch.Tensor],
                  real: RowSum) -> dict[str, torch.Tensor]:
        """Returns the sums over the workers. Rank 0, which always has samples, says which there are."""
        said = torch.tensor(list(json.dumps(mine).encode()), dtype=torch.uint8)
        size = torch.tensor(len(said))  # not broadcast_object_list, which needs NumPy
        with interruptible(replica.job):
            await_call(replica.job, lambda: dist.broadcast(size, 0))
            if replica.job.rank:
                said = torch.zeros(int(size), dtype=torch.uint8)
            await_call(replica.job, lambda: dist.broadcast(said, 0))
        wanted = json.loads(bytes(said.tolist()))
        if mine and json.loads(json.dumps(mine)) != wanted:
            raise ValueError(f"measure returned {mine} on rank {replica.job.rank}, but {wanted} on rank 0")
        sums = {name: whole.get(name, torch.zeros(shape, dtype=torch.int64)).cpu() for name, (dtype, shape) in wanted.items()
                if dtype == "torch.int64"}
        replica.add_up(*sums.values())
        floats = {name: shape for name, (dtype, shape) in wanted.items() if dtype != "torch.int64"}
        sizes = [math.prod(shape) for shape in floats.values()]
        row = replica.add_rows(real.rows if sum(sizes) else [], sum(sizes), order)
        sums.update({name: part.view(shape) for (name, shape), part in zip(floats.items(), row.split(sizes))})
        return {name: sums[name] for name in wanted}


class Result:
    """An evaluation. `epoch`: from 1. `steps`: finished ones. `samples`: evaluated. `sums`: over all of them, by name.
    `means`: the sums per sample. `train_loss`: mean over the epoch's steps. `seconds`: of training in the epoch."""

    def __init__(self, epoch: int, steps: int, samples: int, sums: dict[str, Any], train_loss: float, seconds: float) -> None:
        self.epoch, self.steps, self.samples, self.sums = epoch, steps, samples, sums
        self.train_loss, self.seconds = train_loss, seconds
        self.means = {name: (torch.tensor(value, dtype=torch.float64) / samples).tolist() for name, value in sums.items()}


def _exact(value: Any) -> torch.Tensor:
    value = torch.as_tensor(value).detach()
    return value.to(torch.float64 if value.is_floating_point() else torch.int64)


@contextlib.contextmanager
def _evaluating(model: torch.nn.Module) -> Iterator[None]:
    """Puts a model into evaluation mode, and then each of its modules back into its own mode."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
