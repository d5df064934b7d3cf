"""Reads the micro-batches of a worker's steps through PyTorch's DataLoader, ahead of the training. When the generation
changes, what was read ahead is thrown away and read again for the new place."""
from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate

from mtrun.randomness import seed_generators, seed_of
from mtrun.sampler import ElasticSampler, StepPlan
from mtrun.torch import close_inherited

OF_THE_SAMPLER = ("batch_size", "shuffle", "sampler", "batch_sampler", "drop_last")
PR_SET_PDEATHSIG = 1
OWN = ("persistent_workers", "generator", "in_order")


@dataclass(frozen=True)
class MicroBatch:
    """What a DataLoader's worker is asked for. `number`: within the step."""
    step: int
    epoch: int
    number: int
    ids: list[int]


class Loader:
    """Yields this worker's micro-batches: those that `sampler` assigns to it, each made of the samples `dataset[id]` by
    `collate_fn`. `dataset`: any map-style Dataset (`__len__`, and `__getitem__` or `__getitems__`) with as many samples
    as the sampler has. `options`: as for torch.utils.data.DataLoader (num_workers, pin_memory, prefetch_factor, timeout,
    worker_init_fn, multiprocessing_context, ...), except those that the sampler decides.

    PyTorch's, Python's and NumPy's random numbers in `dataset` are a function of (seed, epoch, sample), those in
    `collate_fn` of (seed, step, micro-batch). They do not depend on the number of workers.

    TypeError if samples cannot be named by number, or if an option belongs to the sampler. ValueError if the dataset
    has another number of samples than the sampler, now or at a later step."""

    def __init__(self, dataset: Dataset, sampler: ElasticSampler, *, collate_fn: Callable[[list[Any]], Any] | None = None,
                 keep_workers: bool = True, **options: Any) -> None:
        _check(dataset, options)
        self.dataset, self.sampler = dataset, sampler
        self._size = len(dataset)
        if self._size != sampler.size:
            raise ValueError(f"the dataset has {self._size} samples, but the sampler was made for {sampler.size}: "
                             "make it with ElasticSampler(len(dataset), ...)")
        self._batches: Iterator[Any] | None = None
        self._ahead = _Ahead(sampler)
        init = _Start(options.pop("worker_init_fn", None))
        self._loader = DataLoader(_Samples(dataset, sampler.seed), batch_sampler=self._ahead,
                                  collate_fn=_Collate(collate_fn or default_collate, sampler.seed), worker_init_fn=init,
                                  persistent_workers=keep_workers and options.get("num_workers", 0) > 0, **options)

    def __len__(self) -> int:
        """Returns the steps of an epoch, as a DataLoader's length under DDP does."""
        return self.sampler.steps_per_epoch

    def begin(self, rank: int, world_size: int, node: range | None = None) -> None:
        """Begins at the sampler's position, as worker `rank` of `world_size`; discards everything read ahead. `node`:
        as for ElasticSampler.plan."""
        self._batches = None
        self._ahead.begin(rank, world_size, node)

    def plan(self) -> StepPlan:
        """Returns the StepPlan of the sampler's next step. REQUIRES: begin. ValueError if the dataset has changed."""
        if len(self.dataset) != self._size:
            raise ValueError(f"the dataset had {self._size} samples and now has {len(self.dataset)}: a run needs the same "
                             "samples from its first step to its last, so add new ones between runs")
        return self._ahead.plan()

    def next(self) -> Any:
        """Returns the next micro-batch of the plans, in their order. Seeds this process's random generators if there are no
        DataLoader workers. REQUIRES: one is left."""
        if self._batches is None:
            self._batches = iter(self._loader)
        return next(self._batches)


class Ids:
    """A Loader without data: its micro-batches are the lists of ids themselves."""

    def __init__(self, sampler: ElasticSampler) -> None:
        self.sampler, self._place = sampler, (0, 1)
        self._node: range | None = None
        self._left: Iterator[tuple[int, list[int]]] = iter(())

    def begin(self, rank: int, world_size: int, node: range | None = None) -> None:
        self._place, self._node = (rank, world_size), node

    def plan(self) -> StepPlan:
        plan = self.sampler.plan(*self._place, node=self._node)
        self._left = iter(plan.passes)
        return plan

    def next(self) -> list[int]:
        return next(self._left)[1]


def _check(dataset: Dataset[Any], options: dict[str, Any]) -> None:
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
        raise TypeError(f"{type(dataset).__name__} is an iterable dataset, whose samples have no numbers, so that none can be "
                        "taken exactly once by changing workers: give a map-style Dataset (__len__ and __getitem__), for "
                        "example by an index of the files and offsets of its samples")
    if not hasattr(dataset, "__getitem__") and not hasattr(dataset, "__getitems__"):
        raise TypeError(f"{type(dataset).__name__} has no __getitem__: give a map-style Dataset (__len__ and __getitem__)")
    for name in OF_THE_SAMPLER:
        if name in options:
            raise TypeError(f"{name} belongs to the sampler, which decides what each worker takes: "
                            "ElasticSampler(size, global_batch, micro_batch, epochs, seed, shuffle)")
    for name in OWN:
        if name in options:
            raise TypeError(f"{name} cannot be given: mtrun.loader.Loader sets it")


class _Ahead:
    """The batch sampler of the DataLoader: this worker's MicroBatches from the sampler's position on. It keeps the plans of
    steps that have been asked for but not taken."""

    def __init__(self, sampler: ElasticSampler) -> None:
        self._sampler, self._place = sampler, (0, 1)
        self._node: range | None = None
        self._plans: dict[int, StepPlan] = {}

    def begin(self, rank: int, world_size: int, node: range | None) -> None:
        self._place, self._node, self._plans = (rank, world_size), node, {}

    def plan(self) -> StepPlan:
        """Returns the StepPlan of the sampler's next step."""
        self._plans = {step: plan for step, plan in self._plans.items() if step >= self._sampler.step}
        return self._plan_of(self._sampler.step)

    def __iter__(self) -> Iterator[MicroBatch]:
        for step in range(self._sampler.step, self._sampler.steps):
            plan = self._plan_of(step)
            for number, ids in plan.passes:
                yield MicroBatch(step, plan.epoch, number, ids)

    def _plan_of(self, step: int) -> StepPlan:
        if step not in self._plans:
            self._plans[step] = self._sampler.plan(*self._place, step, self._node)
        return self._plans[step]


class _Samples:
    """The dataset as a DataLoader's worker sees it."""

    def __init__(self, dataset: Dataset[Any], seed: int) -> None:
        self._dataset, self._seed = dataset, seed

    def __getitems__(self, wanted: MicroBatch) -> tuple[MicroBatch, Any]:
        return wanted, self._read(wanted)

    def _read(self, wanted: MicroBatch) -> Any:
        if getattr(self._dataset, "__getitems__", None):
            seed_generators(seed_of(self._seed, "samples", wanted.step, wanted.number))
            return self._dataset.__getitems__(wanted.ids)
        return [self._read_one(wanted.epoch, each) for each in wanted.ids]

    def _read_one(self, epoch: int, sample: int) -> Any:
        seed_generators(seed_of(self._seed, "sample", epoch, sample))
        return self._dataset[sample]


class _Collate:
    def __init__(self, collate: Callable[[Any], Any], seed: int) -> None:
        self._collate, self._seed = collate, seed

    def __call__(self, fetched: tuple[MicroBatch, Any]) -> Any:
        wanted, samples = fetched
        seed_generators(seed_of(self._seed, "collate", wanted.step, wanted.number))
        return self._collate(samples)


class _Start:
    """Runs at the start of a DataLoader's process, before the program's own function. A request to leave is sent to all
    processes of a group, but the training process decides when it has read its last batch. So this one leaves the group,
    and the kernel ends it with the training process."""

    def __init__(self, own: Callable[[int], object] | None) -> None:
        self._own = own

    def __call__(self, number: int) -> None:
        close_inherited()
        os.setpgid(0, 0)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        for each in (signal.SIGINT, signal.SIGUSR1):  # Slurm sends them to every process
            signal.signal(each, signal.SIG_IGN)
        if self._own:
            self._own(number)
