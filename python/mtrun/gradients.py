"""Sums a model's gradients over the workers while the last backward pass of a step still runs."""
from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch

from mtrun.job import Interrupted, Job
from mtrun.torch import finish_all, start
from mtrun.whole_model import WholeModel

# Bytes of a bucket's gradients. The first one is small, so that its sum starts early in the backward pass.
FIRST_BYTES, BUCKET_BYTES = 1 << 20, 25 << 20
# A parameter of at least this size is a bucket of its own. Its sum runs in place in the gradient that the backward pass
# made, without a copy. On a CPU the copy costs more than another sum; on a GPU it costs less.
OWN_BYTES = {"cpu": 1 << 20, "cuda": BUCKET_BYTES}


class Gradients:
    """The gradients of a model's parameters that require one, or of this worker's shards of them, in buckets. A step is
    begin(), then backward passes, the last one within last_pass(), then sum().

    1. All workers start the sums of all buckets in one order, that of their index, whatever each worker's passes used.
    2. After sum(), every parameter has the gradient summed over the workers that hold it, zero if no pass used it.
    3. A sum that is interrupted does not write into gradients of a later step."""

    def __init__(self, model: torch.nn.Module, held: WholeModel | None = None) -> None:
        self._held = held or WholeModel(model)
        self._made_for: list[Any] | None = None
        self._buckets: list[Bucket] = []
        self._hooks: list[Any] = []
        self._job: Job | None = None  # within the last pass
        self._sums: list[tuple[Any, torch.Tensor]] = []
        self._error: RuntimeError | None = None
        self._lock = threading.Lock()  # backward passes on several GPUs call the hooks from several threads

    def begin(self) -> None:
        """Begins a step without gradients."""
        trained = self._held.trained()
        made_for = [(id(p), p.dtype, p.device, p.shape, p.stride()) for p in trained]
        if made_for != self._made_for:
            self._make_buckets(trained)
            self._made_for = made_for
        for bucket in self._buckets:
            bucket.begin(renew=bool(self._sums))  # an interrupted sum may still write into the old storage
        self._sums, self._error = [], None

    @contextlib.contextmanager
    def last_pass(self, job: Job) -> Iterator[None]:
        """Wraps the step's last backward pass, in which the sum of a bucket starts once its gradients are complete."""
        self._job = job
        try:
            yield
        finally:
            self._job = None

    def sum(self, job: Job, *more: torch.Tensor) -> None:
        """Starts the sums that no pass has started, then those of the tensors in `more`, and waits for all. Call within
        `mtrun.torch.interruptible`. Raises what failed; then no gradient is valid."""
        if self._error:
            raise self._error
        self._start_sums(len(self._buckets))
        self._sums += [(start(tensor), tensor) for tensor in more]
        finish_all(job, self._sums)
        self._sums = []

    def _start_sums(self, end: int) -> None:
        for bucket in self._buckets[len(self._sums):end]:
            flat = bucket.complete()
            self._sums.append((start(flat, group=self._held.group), flat))

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
        if index < len(self._sums):
            self._error = self._error or RuntimeError(
                "a backward pass accumulated a gradient again after its sum had started (torch.utils.checkpoint with "
                "use_reentrant=True?): use use_reentrant=False")
            return
        bucket = self._buckets[index]
        bucket.take(place)
        if self._job and not self._error:
            bucket.ready[place] = True
            self._start_ready()

    def _start_ready(self) -> None:
        end = len(self._sums)
        while end < len(self._buckets) and all(self._buckets[end].ready):
            end += 1
        try:
            if end > len(self._sums):
                if self._job and self._job.over():
                    raise Interrupted("the generation ended during the backward pass")
                self._start_sums(end)
        except RuntimeError as error:
            self._error = error


class Bucket:
    """Parameters of one dtype and device whose gradients are summed at once: views of one kept tensor, or, for a single
    parameter that is large, its gradient itself."""

    def __init__(self, parameters: list[Any]) -> None:
        self.parameters = parameters
        self._strides = [_strides(p) for p in parameters]
        self._own = len(parameters) == 1 and is_large(parameters[0])
        self._flat: torch.Tensor | None = None
        self._views: list[torch.Tensor] = []

    def begin(self, renew: bool) -> None:
        self.ready = [False] * len(self.parameters)
        if not self._own and (renew or self._flat is None):
            first = self.parameters[0]
            self._flat = torch.empty(sum(p.numel() for p in self.parameters), dtype=first.dtype, device=first.device)
            parts = self._flat.split([p.numel() for p in self.parameters])
            self._views = [part.as_strided(p.shape, strides, part.storage_offset())
                           for p, strides, part in zip(self.parameters, self._strides, parts)]
        for p in self.parameters:
            p.grad = None  # the first pass writes its gradient without reading an old one

    def take(self, place: int) -> None:
        """Moves a parameter's gradient to its place in the bucket, whoever made it."""
        p = self.parameters[place]
        if self._own:
            if p.grad.stride() != self._strides[place]:
                p.grad = self._empty(place).copy_(p.grad.detach())
        elif p.grad is not self._views[place]:
            self._views[place].copy_(p.grad.detach())
            p.grad = self._views[place]

    def complete(self) -> torch.Tensor:
        """Returns all gradients in one row; zeros for those that no pass made."""
        for place, p in enumerate(self.parameters):
            if p.grad is None:
                p.grad = (self._empty(place) if self._own else self._views[place]).zero_()
            else:
                self.take(place)
        if not self._own:
            return self._flat
        grad = self.parameters[0].grad.detach()
        return grad.as_strided((grad.numel(),), (1,), grad.storage_offset())  # in the order of the memory

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
