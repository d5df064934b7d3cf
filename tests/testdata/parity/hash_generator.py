"""The numbers that parity runs are made of, by name: README.md beside this file defines them. Every weight, input and noise comes
from here, so that the C++ side needs no weight files."""
import math

import numpy as np
import torch
import torch.nn as nn

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def splitmix64(x):
    """x: uint64 array -> uint64 array of the same shape (Steele, Lea, Flood 2014)."""
    with np.errstate(over="ignore"):
        z = x + np.uint64(GOLDEN)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def fnv1a(name):
    h = 0xCBF29CE484222325
    for byte in name.encode():
        h = ((h ^ byte) * 0x100000001B3) & MASK
    return h


class Generator:
    """A stream of numbers per name: bits(name, n)[i] = splitmix64((fnv1a(name) ^ splitmix64(seed)) + i)."""

    def __init__(self, seed):
        self.key = int(splitmix64(np.array([seed], dtype=np.uint64))[0])

    def bits(self, name, n):
        with np.errstate(over="ignore"):
            return splitmix64(np.uint64(fnv1a(name) ^ self.key) + np.arange(n, dtype=np.uint64))

    def uniform(self, name, n):
        """float64 in [0, 1): the top 53 bits."""
        return (self.bits(name, n) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def signed(self, name, shape):
        """float64 in [-1, 1)."""
        return (2.0 * self.uniform(name, math.prod(shape)) - 1.0).reshape(shape)

    def normal(self, name, shape):
        """float32 standard normal by Box-Muller: element i uses uniforms 2i and 2i+1."""
        u = self.uniform(name, 2 * math.prod(shape)).reshape(-1, 2)
        z = np.sqrt(-2.0 * np.log(1.0 - u[:, 0])) * np.cos(2.0 * math.pi * u[:, 1])
        return torch.from_numpy(z.astype(np.float32).reshape(shape))

    def integers(self, name, n, bound):
        return torch.from_numpy((self.bits(name, n) % np.uint64(bound)).astype(np.int64))


def fill(model, gen):
    """Sets every entry of the state dict: see README, 'Weights'."""
    norms = {f"{n}.weight" for n, m in model.named_modules() if isinstance(m, (nn.BatchNorm2d, nn.LayerNorm, nn.GroupNorm))}
    for name, t in model.state_dict().items():
        shape = tuple(t.shape)
        if name.endswith("num_batches_tracked"):
            value = np.zeros(shape)
        elif name.endswith("running_mean"):
            value = np.zeros(shape)
        elif name.endswith("running_var"):
            value = np.ones(shape)
        elif name in norms:
            value = 1.0 + 0.1 * gen.signed(name, shape)
        elif t.ndim >= 2:
            value = gen.signed(name, shape) / math.sqrt(t.numel() // shape[0])
        else:
            value = 0.01 * gen.signed(name, shape)
        t.copy_(torch.from_numpy(np.asarray(value).astype(np.float32)).to(t.dtype))
