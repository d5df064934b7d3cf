"""One attempt at a step, as the program's own loop sees it."""
from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from mtrun.job import Interrupted
from mtrun.randomness import restored, seed_generators, seed_of

if TYPE_CHECKING:
    from mtrun.loader import Ids, Loader
    from mtrun.replica import Replica, Step
    from mtrun.sampler import StepPlan


class TrainingStep:
    """What `Replica.train` yields. Iterate over it for this worker's micro-batches, call `backward` for each, and `apply`
    once:

        for images, labels in step:
            step.backward(criterion(model(images), labels))
        if step.apply(max_norm=1.0):
            scheduler.step()

    If the generation ends, the three record it instead of raising into the loop: the iteration ends, and `apply` returns
    False. The next step is then the same again, with the micro-batches of this worker's new place.

    `number`: of the step, from 0. `epoch`: from 0. `samples`: of all workers. `begins_epoch`, `ends_epoch`: whether it
    is an epoch's first or last one. After `apply` returned True: `loss`, the mean over the samples before the update;
    `skipped`, whether the GradScaler met an infinite gradient; `norm`, of all gradients before clipping, a tensor, if
    `max_norm` was given; `applied`, the Step."""

    def __init__(self, replica: Replica, plan: StepPlan, loader: Loader | Ids) -> None:
        self._replica, self._plan, self._loader = replica, plan, loader
        self.number, self.epoch, self.samples = plan.step, plan.epoch, len(plan.ids)
        within = plan.step % replica.sampler.steps_per_epoch
        self.begins_epoch, self.ends_epoch = within == 0, within == replica.sampler.steps_per_epoch - 1
        self._passes = 0  # finished micro-batches
        self._weight: float | None = None  # of the running micro-batch; None: it has no loss yet, or there is none
        self._losses: list[torch.Tensor] = []  # weighted, of the finished micro-batches that count
        self._error: Interrupted | None = None  # why the generation ended
        self.applied: Step | None = None
        self.norm: torch.Tensor | None = None

    @property
    def loss(self) -> float | None:
        """Returns the mean loss of the step's samples, before the update; None if the step is not committed."""
        return self.applied.loss if self.applied else None

    @property
    def skipped(self) -> bool:
        """Returns whether the GradScaler met an infinite gradient, so that the weights have not changed."""
        return self.applied is not None and self.applied.skipped

    # ---- the loop
    def __iter__(self) -> Iterator[Any]:
        job, seed = self._replica.job, self._replica.sampler.seed
        with restored():
            for number, ids in self._plan.passes[self._passes:]:
                if self._error or self._ended():
                    return
                with job.loads():
                    batch = self._loader.next()
                seed_generators(seed_of(seed, "pass", self.number, number))
                counts = self._passes < len(self._plan.micro_batches)  # else it is one that another worker computes
                self._weight = len(ids) / self.samples if counts else 0.0
                with self._replica.micro_batch(counts):
                    yield batch
                if self._error:
                    return
                if self._weight is not None:
                    raise RuntimeError(f"step {self.number}: the loop took a micro-batch without calling step.backward(loss)")
                self._passes += 1

    def backward(self, loss: torch.Tensor) -> None:
        """Differentiates the mean loss of the running micro-batch, weighted so that the sum over all workers is the
        gradient of the mean over the step's samples. Call it once for each micro-batch. ValueError if `loss` is not one
        number that depends on a trained parameter."""
        if self._error or self._was_interrupted():
            return
        if self._weight is None:
            raise RuntimeError(f"step {self.number}: step.backward(loss) was called twice for a micro-batch, or outside of the "
                               "loop over the step: add up the losses of a micro-batch and call it once")
        _check(loss)
        part, self._weight = loss.reshape(()) * self._weight, None
        try:
            self._replica.differentiate(part, self._passes + 1 == len(self._plan.passes))
        except Interrupted as error:
            self.interrupt(error)
        if not self._error and not self._was_interrupted() and self._passes < len(self._plan.micro_batches):
            self._losses.append(part.detach())

    def apply(self, max_norm: float | None = None, norm_type: float = 2.0) -> bool:
        """Sums the gradients over the workers, unscales them, clips them to `max_norm` (of the whole model's gradients,
        as torch.nn.utils.clip_grad_norm_) and makes the optimizer's step. Returns True if the step was committed, by all
        workers, or False if the generation ended."""
        if self.applied:
            raise RuntimeError(f"step {self.number}: step.apply() was called twice")
        if not self._error:
            own = len(self._plan.passes)
            if self._passes < own:
                raise RuntimeError(f"step {self.number}: the loop ended after {self._passes} of this worker's {own} "
                                   "micro-batches: take all of them, so that every sample counts")
            try:
                self.applied, self.norm = self._replica.commit(self._plan, self._losses, max_norm, norm_type)
            except Interrupted as error:
                self.interrupt(error)
        return self.applied is not None

    def interrupt(self, error: Interrupted) -> None:
        """Records that the generation has ended: the step will come again."""
        self._error = error.with_traceback(None)  # a traceback would keep the step's tensors alive

    # ---- the replica
    def finish(self) -> None:
        """Raises Interrupted if the step was not committed, RuntimeError if the loop did not ask for it."""
        if self._error:
            raise self._error
        if not self.applied:
            raise RuntimeError(f"step {self.number}: the loop's body ended without step.apply()")

    def _was_interrupted(self) -> bool:
        """Returns whether a collective within a pass was interrupted, so that the pass has no result."""
        if error := self._replica.interrupted:
            self.interrupt(error)
        return error is not None

    def _ended(self) -> bool:
        try:
            self._replica.job.check()
        except Interrupted as error:
            self.interrupt(error)
        return self._error is not None


def _check(loss: object) -> None:
    if not isinstance(loss, torch.Tensor):
        raise ValueError(f"the loss is a {type(loss).__name__}, but must be the tensor that the model's outputs lead to")
    if loss.numel() != 1:
        raise ValueError(f"the loss has the shape {list(loss.shape)}, but must be one number, the mean over the micro-batch: "
                         "loss.mean(), or reduction='mean'")
    if not loss.requires_grad:
        raise ValueError("the loss does not depend on any trained parameter: it was computed under torch.no_grad(), from "
                         "detached tensors, or all parameters are frozen")
