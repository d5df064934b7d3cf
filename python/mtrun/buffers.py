"""Keeps what a step does to a model's buffers (such as running statistics of batch normalisation) independent of the
number of workers."""
from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
import torch

from mtrun.row_sum import RowSum
from mtrun.step_sums import StepSums, in_sequence

ROUNDED = (torch.float64, torch.complex128, torch.int64)  # dtypes whose sums in float64 can round


class Buffers:
    """The buffers of a model's state_dict. Each micro-batch starts from the buffers at the start of its step, which
    ends with their mean over all micro-batches, added in the order of StepSums. So no result depends on which worker
    computed which.

    A buffer that a pass has changed once counts as changed by every later pass of this process: the mean of equal numbers is
    that number. Only the others are compared, and those whose sums can round, until a pass of the step changes them. Version
    counters cannot tell: batch normalisation on a CPU does not increase them (PyTorch 2.11)."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._model, self._names = model, set(model.state_dict())
        self._start: dict[str, torch.Tensor] = {}  # name: the buffer at the start of the step, in kept storage
        self._sum = RowSum(in_sequence(0))  # over the passes of the step
        self._unchanged: set[str] = set()  # in the step so far, of those that have places
        self._lay_out([])
        self.begin()

    def tensors(self) -> dict[str, torch.Tensor]:
        """Returns the buffers by name, looked up each time because a pass can replace a buffer's tensor."""
        return {name: tensor.detach() for name, tensor in self._model.named_buffers() if name in self._names}

    def any(self) -> bool:
        return bool(self._start)

    def begin(self, sums: StepSums | None = None) -> None:
        """Begins a step. `sums`: by default none has a pass."""
        now = self.tensors()
        kept = {name: self._kept(name, tensor) for name, tensor in now.items()}
        if any(kept.get(name) is not self._start[name] for name in self._places):
            self._start = kept  # the program has replaced buffers
            self._lay_out([])
        self._start = kept
        self._sum = RowSum(sums or in_sequence(0))
        self._unchanged = {name for name in self._places if kept[name].dtype in ROUNDED}
        _copy(kept.values(), now.values())

    def _kept(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        kept = self._start.get(name)
        same = kept is not None and (kept.shape, kept.dtype, kept.device) == (tensor.shape, tensor.dtype, tensor.device)
        return kept if same else torch.empty_like(tensor)

    @contextlib.contextmanager
    def micro_batch(self, counts: bool = True) -> Iterator[None]:
        """Wraps one micro-batch's pass: adds up the buffers that it leaves, if it `counts`, then restores them."""
        finished = False
        try:
            yield
            finished = counts
        finally:
            if self._start:
                self._end_pass(finished)

    def _end_pass(self, finished: bool) -> None:
        now = {name: tensor for name, tensor in self.tensors().items()
               if name in self._start and tensor.shape == self._start[name].shape}
        new = [name for name, tensor in now.items()
               if name not in self._places and not torch.equal(tensor, self._start[name])]
        if new:
            self._lay_out([*self._places, *new])
        if finished:
            self._unchanged -= {name for name in self._unchanged if name in now and not torch.equal(now[name], self._start[name])}
            _copy(self._views, [_real(now.get(name, self._start[name])) for name in self._places])
            self._sum.add(self._row)
        moved = [name for name in self._places if name in now]
        _copy([now[name] for name in moved], [self._start[name] for name in moved])

    def _lay_out(self, names: list[str]) -> None:
        """Gives these buffers places in a row. Earlier passes of the step have not changed those that had no place."""
        known = getattr(self, "_places", {})
        begin_of_new = max((end for _, end in known.values()), default=0)
        self._places: dict[str, tuple[int, int]] = {}
        end = 0
        for name in names:
            begin, end = end, end + _real(self._start[name]).numel()
            self._places[name] = begin, end
        device = self._start[names[0]].device if names else None
        self._row = torch.zeros(end, dtype=torch.float64, device=device)  # after a pass
        self._views = [self._row[slice(*self._places[name])].view(_real(self._start[name]).shape) for name in names]
        _copy(self._views, [_real(self._start[name]) for name in names])
        if names:
            self._sum.widen(self._row[begin_of_new:])

    def counts(self) -> torch.Tensor:
        """Returns, to be summed over the workers, the number of passes and for each buffer whether they changed it."""
        passes = self._sum.count
        return torch.tensor([passes] + [int(passes > 0 and name in self._places and name not in self._unchanged)
                                        for name in self._start])

    def partials(self, counts: torch.Tensor) -> list[torch.Tensor]:
        """Returns this worker's partial sums of the buffers that changed on any, by the summed `counts`, as rows."""
        names = self._moved(counts)
        if not names:
            return []
        if new := [name for name in names if name not in self._places]:
            self._lay_out([*self._places, *new])
        return [torch.cat([row[slice(*self._places[name])] for name in names]) for row in map(torch.Tensor.cpu, self._sum.rows)]

    def size(self, counts: torch.Tensor) -> int:
        """Returns the length of these rows."""
        return sum(_real(self._start[name]).numel() for name in self._moved(counts))

    def apply(self, counts: torch.Tensor, sums: torch.Tensor) -> None:
        """Applies the step. Both arguments are summed over the workers."""
        names = self._moved(counts)
        if not names:
            return
        now = self.tensors()
        targets = [_real(now[name]) for name in names]
        means = (sums / int(counts[0])).to(targets[0].device).split([target.numel() for target in targets])
        _copy(targets, [(mean if target.is_floating_point() else mean.round()).view(target.shape)
                        for target, mean in zip(targets, means)])

    def _moved(self, counts: torch.Tensor) -> list[str]:
        return [name for name, workers in zip(self._start, counts[1:].tolist()) if workers]


def _copy(targets: Iterable[torch.Tensor], sources: Iterable[torch.Tensor]) -> None:
    """Copies each source, of any dtype, to its target."""
    if targets := list(targets):
        torch._foreach_copy_(targets, list(sources))


def _real(tensor: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor
