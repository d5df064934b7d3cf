"""Sums a model's gradients over the workers while the last backward pass of a step still runs."""
from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch

from mtrun.exchange import Exchange
from mtrun.job import Interrupted, Job
from mtrun.step_sums import StepSums, in_sequence
from mtrun.torch import finish_all, start
from mtrun.tree_sum import LeafStep
from mtrun.whole_model import WholeModel

# Bytes of a bucket's gradients. The first one is small, so that its sum starts early in the backward pass.
FIRST_BYTES, BUCKET_BYTES = 1 << 20, 25 << 20
# A parameter of at least this size is a bucket of its own. Its sum runs in place in the gradient that the backward pass
# made, without a copy. On a CPU the copy costs more than another sum; on a GPU it costs less.
OWN_BYTES = {"cpu": 1 << 20, "cuda": BUCKET_BYTES}


class Gradients:
    """The gradients of a model's parameters that require one, or of this worker's shards of them, in buckets. A step is
    begin(), then backward passes, each after begin_micro_batch() and within one_pass(), then sum().

    1. All workers start the sums of all buckets in one order, that of their index, whatever each worker's passes used.
    2. After sum(), every parameter has the gradient summed over the workers that hold it, zero if no pass used it.
    3. The bits of a sum follow from the passes' gradients and the order in StepSums, not from which worker made which. Nothing
       is added for a worker without a pass but -0.0, which changes no number.
    4. A sum that is interrupted does not write into gradients of a later step.
    5. What the program's own backward passes leave in p.grad before one_pass() is of that pass, never of an earlier one."""

    def __init__(self, model: torch.nn.Module, held: WholeModel | None = None) -> None:
        self._held = held or WholeModel(model)
        self._made_for: list[Any] | None = None
        self._trained: list[Any] = []  # in the newest step
        self._buckets: list[Bucket] = []
        self._empty: list[Any] = []  # parameters without elements, which are in no bucket
        self._hooks: list[Any] = []
        self._job: Job | None = None  # within the last pass
        self._running: list[Sum] = []
        self._sums, self._rank, self._passes = in_sequence(0), 0, 0
        self._laid_out = self._in_pass = False
        self._renews = False  # an interrupted sum may still write into the old storage
        self._error: RuntimeError | None = None
        self._lock = threading.Lock()  # backward passes on several GPUs call the hooks from several threads

    def begin(self, sums: StepSums, rank: int = 0) -> None:
        """Begins a step without gradients. `rank`: of this worker, if there is a plan."""
        self._renews = bool(self._running)
        self._sums, self._rank, self._passes = sums, rank, 0
        self._running, self._error, self._laid_out = [], None, False
        for p in self._trained or self._held.trained():
            p.grad = None  # the first pass writes its gradient without reading an old one

    def _lay_out(self) -> None:
        """Prepares the buckets of the step, once the program can no longer freeze or unfreeze parameters for it."""
        if self._laid_out:
            return
        trained = self._trained = self._held.trained()
        made_for = [(id(p), p.dtype, p.device, p.shape, p.stride()) for p in trained]
        if made_for != self._made_for:
            self._make_buckets(trained)
            self._made_for = made_for
            self._empty = [p for p in trained if p.numel() == 0 and self._held.shards == 1]
        for bucket in self._buckets:
            bucket.begin(self._renews)
        self._laid_out = True

    def begin_micro_batch(self) -> None:
        """Takes the gradients of earlier passes out of the program's reach. Those of shards stay: FullyShardedDataParallel
        adds to them without further memory."""
        if self._passes and self._held.shards == 1:
            for bucket in self._buckets:
                bucket.hide()

    @contextlib.contextmanager
    def one_pass(self, job: Job | None = None) -> Iterator[None]:
        """Wraps a backward pass. `job`: in the step's last one, in which the sum of a bucket starts once its gradients are
        complete."""
        self._lay_out()
        step = self._sums.steps[self._passes]
        self._passes += 1
        for bucket in self._buckets:
            bucket.begin_pass(step)
        self._job, self._in_pass = job, True
        try:
            yield
        finally:
            self._job, self._in_pass = None, False
        if not job:  # sum() ends the last one
            for bucket in self._buckets:
                bucket.end_pass()

    def sum(self, job: Job, *more: torch.Tensor) -> None:
        """Starts the sums that no pass has started, then those of the tensors in `more`, and waits for all. Call within
        `mtrun.torch.interruptible`. Raises what failed; then no gradient is valid."""
        if self._error:
            raise self._error
        self._lay_out()
        for p in self._empty:
            p.grad = torch.zeros_like(p)  # for the optimizer: also without a pass
        self._start_sums(len(self._buckets))
        others = [(start(tensor), tensor) for tensor in more]
        finish_all(job, [*(pair for each in self._running for pair in each.finish(job)), *others])
        self._running = []

    def _start_sums(self, end: int) -> None:
        for bucket in self._buckets[len(self._running):end]:
            bucket.end_pass()
            self._running.append(Sum(bucket, self._sums, self._rank, self._held.group))

    def _make_buckets(self, trained: list[Any]) -> None:
        for hook in self._hooks:
            hook.remove()
        self._buckets = [Bucket(parameters) for parameters in plan_buckets(trained)]
        self._hooks = [p.register_post_accumulate_grad_hook(self._hook(index, place))
                       for index, bucket in enumerate(self._buckets) for place, p in enumerate(bucket.parameters)]

    def _hook(self, index: int, place: int) -> Callable[[torch.Tensor], None]:
        def accumulated(_: torch.Tensor) -> None:
            with self._lock:
                self._accumulated(index, place)
        return accumulated

    def _accumulated(self, index: int, place: int) -> None:
        """Takes a gradient that a pass has accumulated. Errors are kept for sum(): this may be another thread."""
        bucket = self._buckets[index]
        if self._in_pass and bucket.is_open:
            if bucket.take(place):
                bucket.end_pass()  # now, while the gradients are in the processor's caches
                if self._job and not self._error:
                    self._start_ready()
        elif self._in_pass or index < len(self._running):
            self._error = self._error or RuntimeError(
                "a backward pass accumulated a gradient again after it had been added to others (torch.utils.checkpoint with "
                "use_reentrant=True?): use use_reentrant=False")

    def _start_ready(self) -> None:
        end = len(self._running)
        while end < len(self._buckets) and not self._buckets[end].is_open:
            end += 1
        try:
            if end > len(self._running):
                if self._job and self._job.over():
                    raise Interrupted("the generation ended during the backward pass")
                self._start_sums(end)
        except RuntimeError as error:
            self._error = error


class Sum:
    """The sum of a bucket over the workers, which has started."""

    def __init__(self, bucket: Bucket, sums: StepSums, rank: int, group: Any) -> None:
        self._bucket, self._exchanges = bucket, sums.by_exchange
        if sums.by_exchange:
            assert sums.plan
            self._works = bucket.exchange.start(bucket.partials(), bucket.result(), sums.plan, rank)
        else:
            row = bucket.result()
            self._works = [(start(row, group=group), row)]

    def finish(self, job: Job) -> list[tuple[Any, torch.Tensor]]:
        """Makes the parameters' gradients those of the sum. Returns what finish_all is to wait for."""
        if not self._exchanges:
            return self._works
        finish_all(job, self._works)
        return self._bucket.exchange.combine(self._bucket.result())


class Entry:
    """Gradients of a bucket's parameters: `row` has all of them, `views` each one."""

    def __init__(self, row: torch.Tensor, views: list[torch.Tensor]) -> None:
        self.row, self.views = row, views


class Bucket:
    """Parameters of one dtype and device whose gradients are summed at once: views of one kept row, or, for a single
    parameter that is large, its gradient itself. It has a stack of sums over passes; after a pass the newest is in the
    parameters' `grad`."""

    def __init__(self, parameters: list[Any]) -> None:
        self.parameters = parameters
        self._strides = [_strides(p) for p in parameters]
        self._own = len(parameters) == 1 and is_large(parameters[0])
        self._stack: list[Entry] = []
        self._kept: list[Entry] = []  # not in use
        self._new: Entry | None = None  # of a pass that adds to no other
        self._step, self._missing = LeafStep(), set[int]()  # of the newest pass; the places whose gradient it has not made
        self.is_open = False  # whether the newest pass runs
        self.exchange = Exchange()

    def begin(self, renew: bool) -> None:
        """Begins a step. `renew`: in other storage."""
        if renew:
            self.exchange = Exchange()
        if renew or self._own:
            self._kept = []
        else:
            self._kept += self._stack
        self._stack, self._new, self.is_open = [], None, False

    def begin_pass(self, step: LeafStep) -> None:
        """Lets autograd add to the newest sum, if the pass does, except to shards and where a hook of the program's is to see
        the gradient of its pass alone."""
        self._missing = set(range(len(self.parameters)))
        self._step, self.is_open, self._new = step, True, None
        if step.additions:
            for p, view in zip(self.parameters, self._stack[-1].views):
                if p.grad is None and len(getattr(p, "_post_accumulate_grad_hooks", ())) == 1:
                    p.grad = view

    def hide(self) -> None:
        """Takes what earlier passes made out of `grad`."""
        for p in self.parameters:
            p.grad = None

    def take(self, place: int) -> bool:
        """Moves a parameter's gradient to its place in the bucket, whoever made it. Returns whether the newest pass has made
        all gradients."""
        self._missing.discard(place)
        p = self.parameters[place]
        if self._own and not self._step.additions:
            if p.grad.stride() != self._strides[place]:
                p.grad = self._empty(place).copy_(p.grad.detach())
        elif p.grad is not (view := self._newest().views[place]):
            (view.add_ if self._step.additions else view.copy_)(p.grad.detach())
            p.grad = view
        return not self._missing

    def end_pass(self) -> None:
        """Completes a pass: zero is the gradient of a parameter that it did not use."""
        if not self.is_open:
            return
        self.is_open = False
        for place in list(self._missing):
            self._take_unused(place)
        if not self._step.additions:
            self._stack.append(self._of_gradient() if self._own else self._newest())
            self._new = None
        for _ in range(self._step.additions - 1):
            right = self._stack.pop()
            self._stack[-1].row.add_(right.row)
            if not self._own:
                self._kept.append(right)

    def _take_unused(self, place: int) -> None:
        p, added = self.parameters[place], self._stack[-1].views[place] if self._step.additions else None
        if p.grad is not None and p.grad is not added:
            self.take(place)
        elif added is not None:
            p.grad = added.add_(0.0)  # makes 0.0 of -0.0, as adding the zero of a pass of its own does
        else:
            p.grad = self._empty(place).zero_() if self._own else self._newest().views[place].zero_()

    def partials(self) -> list[torch.Tensor]:
        """Returns this worker's partial sums."""
        return [entry.row for entry in self._stack]

    def result(self) -> torch.Tensor:
        """Returns the row in which the sum is to be, the oldest partial sum, and makes it the parameters' gradients. -0.0 if
        there is none, which changes no number that is added to it."""
        if not self._stack:
            if self._own:
                self.parameters[0].grad = self._empty(0)
            self._stack.append(self._of_gradient() if self._own else self._free())
            row = self._stack[0].row
            row.fill_(complex(-0.0, -0.0) if row.is_complex() else -0.0)
        for p, view in zip(self.parameters, self._stack[0].views):
            if p.grad is not view:
                p.grad = view
        return self._stack[0].row

    def _newest(self) -> Entry:
        """Returns the entry that the running pass writes to."""
        if self._step.additions:
            return self._stack[-1]
        if self._new is None:
            self._new = self._free()
        return self._new

    def _free(self) -> Entry:
        if self._kept:
            return self._kept.pop()
        first = self.parameters[0]
        sizes = [p.numel() for p in self.parameters]
        row = torch.empty(sum(sizes), dtype=first.dtype, device=first.device)
        return Entry(row, [part.as_strided(p.shape, strides, part.storage_offset())
                           for p, strides, part in zip(self.parameters, self._strides, row.split(sizes))])

    def _of_gradient(self) -> Entry:
        p = self.parameters[0]
        grad = p.grad.detach()
        return Entry(grad.as_strided((grad.numel(),), (1,), grad.storage_offset()), [p.grad])  # in the order of the memory

    def _empty(self, place: int) -> torch.Tensor:
        p = self.parameters[place]
        return torch.empty_strided(p.shape, self._strides[place], dtype=p.dtype, device=p.device)


def plan_buckets(parameters: list[Any]) -> list[list[Any]]:
    """Returns lists of parameters, one for each bucket, in the order in which a backward pass probably completes them:
    the last parameter first. A pure function of sizes, dtypes and devices, so all workers get the same."""
    buckets: list[list[Any]] = []
    open_ones: dict[Any, tuple[list[Any], int]] = {}
    for p in reversed(parameters):
        if p.numel() == 0:
            continue
        if is_large(p):
            buckets.append([p])
            continue
        kind, size = (p.dtype, p.device), p.numel() * p.element_size()
        bucket, used = open_ones.get(kind, (None, 0))
        limit = FIRST_BYTES if bucket is not None and bucket is buckets[0] else BUCKET_BYTES
        if bucket is None or used + size > limit:
            bucket, used = [], 0
            buckets.append(bucket)
        bucket.append(p)
        open_ones[kind] = bucket, used + size
    return buckets


def is_large(p: Any) -> bool:
    return p.numel() * p.element_size() >= OWN_BYTES.get(p.device.type, BUCKET_BYTES)


def _strides(p: Any) -> tuple[int, ...]:
    """Returns the strides of a gradient of `p`: those of `p` if its elements fill a row, as autograd does."""
    return torch.empty_like(getattr(p, "local", p), device="meta").stride()
