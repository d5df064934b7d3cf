"""Keeps what a step does to a model's buffers (such as running statistics of batch normalisation) independent of the
number of workers."""
import contextlib

import torch


class Buffers:
    """The buffers of a model's state_dict. Each micro-batch starts from the buffers at the start of its step, which
    ends with their mean over all micro-batches. So no result depends on which worker computed which."""

    def __init__(self, model):
        self._model, self._names = model, set(model.state_dict())
        self.begin()

    def tensors(self):
        """Returns the buffers by name, looked up each time because a pass can replace a buffer's tensor."""
        return {name: tensor for name, tensor in self._model.named_buffers() if name in self._names}

    def any(self):
        return bool(self._start)

    def begin(self):
        """Begins a step."""
        self._start = {name: tensor.detach().clone() for name, tensor in self.tensors().items()}
        self._passes, self._moves = 0, {}  # name: number of passes that changed it, and the sum of their results

    @contextlib.contextmanager
    def micro_batch(self):
        """Wraps one micro-batch's pass: adds up the buffers that it leaves, then restores them."""
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
        """Returns, to be summed over the workers, the number of passes and for each buffer whether they changed it."""
        return torch.tensor([self._passes] + [int(name in self._moves) for name in self._start])

    def sums(self, counts):
        """Returns, to be summed over the workers, the sums of buffers that changed on any, by the summed `counts`."""
        parts = []
        for name in self._moved(counts):
            times, total = self._moves.get(name, (0, 0))
            if times < self._passes:
                total = total + (self._passes - times) * _numbers(self._start[name])
            parts.append(total if self._passes else torch.zeros_like(_numbers(self._start[name])))
        return torch.cat(parts) if parts else torch.zeros(0, dtype=torch.float64)

    def apply(self, counts, sums):
        """Applies the step. Both arguments are summed over the workers."""
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
    """Returns the values in one row, as float64 on the CPU."""
    tensor = torch.view_as_real(tensor.detach()) if tensor.is_complex() else tensor.detach()
    return tensor.cpu().double().reshape(-1)
