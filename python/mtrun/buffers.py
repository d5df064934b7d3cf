"""What the passes of a step do to a model's buffers, running statistics of batch normalisation say: the same at any number of
workers."""
import contextlib

import torch


class Buffers:
    """Those of the model's state_dict. Each micro-batch of a step begins with what the step began with, and the step leaves
    their mean over its micro-batches. So no result depends on who computed which."""

    def __init__(self, model):
        self._model, self._names = model, set(model.state_dict())
        self.begin()

    def tensors(self):
        """By name. A pass may put another tensor in a buffer's place, so that they are looked for each time."""
        return {name: tensor for name, tensor in self._model.named_buffers() if name in self._names}

    def any(self):
        return bool(self._start)

    def begin(self):
        """Of a step."""
        self._start = {name: tensor.detach().clone() for name, tensor in self.tensors().items()}
        self._passes, self._moves = 0, {}  # name: passes that changed it, and the sum of what they left

    @contextlib.contextmanager
    def micro_batch(self):
        """Around its pass: what that leaves is added up, the buffers are what they were before."""
        try:
            yield
            self._passes += 1
            for name, tensor in self._changed():
                times, total = self._moves.get(name, (0, 0))
                self._moves[name] = times + 1, total + _numbers(tensor)
        finally:
            for name, tensor in self._changed():
                tensor.detach().copy_(self._start[name])

    def counts(self):
        """To be summed over the workers: this one's passes, and for each buffer whether they changed it."""
        return torch.tensor([self._passes] + [int(name in self._moves) for name in self._start])

    def sums(self, counts):
        """To be summed over the workers, who give their `counts` summed: of what changed on any, what all passes left."""
        parts = []
        for name in self._moved(counts):
            times, total = self._moves.get(name, (0, 0))
            if times < self._passes:
                total = total + (self._passes - times) * _numbers(self._start[name])
            parts.append(total if self._passes else torch.zeros_like(_numbers(self._start[name])))
        return torch.cat(parts) if parts else torch.zeros(0, dtype=torch.float64)

    def apply(self, counts, sums):
        """The step is applied. Both summed over the workers."""
        tensors, at = self.tensors(), 0
        for name in self._moved(counts):
            tensor = tensors[name].detach()
            mean = sums[at:at + _numbers(tensor).numel()] / int(counts[0])
            at += mean.numel()
            if tensor.is_complex():
                mean = torch.view_as_complex(mean.view(-1, 2))
            elif not tensor.is_floating_point():
                mean = mean.round()
            tensor.copy_(mean.view(tensor.shape))

    def _moved(self, counts):
        return [name for name, workers in zip(self._start, counts[1:].tolist()) if workers]

    def _changed(self):
        for name, tensor in self.tensors().items():
            start = self._start.get(name)
            if start is not None and tensor.shape == start.shape and not torch.equal(tensor, start):
                yield name, tensor


def _numbers(tensor):
    """In one row, as float64 on the CPU."""
    tensor = torch.view_as_real(tensor.detach()) if tensor.is_complex() else tensor.detach()
    return tensor.cpu().double().reshape(-1)
