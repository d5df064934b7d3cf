"""A Replica's losses do not depend on the number of workers: gradients in buckets of every kind, buffers, uneven shares and
workers without a micro-batch. It needs PyTorch, but not NumPy; tests/e2e/python_package_test.cc runs it."""
import json
import os
import socket
import sys
import unittest

sys.modules["numpy"] = None  # PyTorch works without it

import support  # the package's path
import torch
from mtrun import ElasticSampler, join
from mtrun.gradients import OWN_BYTES
from mtrun.replica import Replica
from mtrun.torch import leave_group

EPOCHS, SIZE = 4, 25  # the last step of an epoch has one sample, so only one worker has a micro-batch
WIDE = OWN_BYTES["cpu"] // 8 // 6 + 1  # a float64 weight of 6 columns that is a bucket of its own


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(3, 6)
        self.norm = torch.nn.BatchNorm1d(6, track_running_stats=True)
        self.wide = torch.nn.Linear(6, WIDE)
        self.unused = torch.nn.Linear(2, 2)
        self.frozen = torch.nn.Linear(2, 2).requires_grad_(False)
        self.register_buffer("constant", torch.full((2,), float("-inf")))

    def forward(self, x):
        x = self.first(x)
        x = self.norm(x) if len(x) > 1 else x + self.norm.running_mean  # with one sample there is no variance
        return self.wide(torch.tanh(x)).pow(2).mean(1)


def train(rank, world, port):
    """Returns the losses of all steps, and the sums of weights and buffers with the sums of their sizes."""
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(world),
                      MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.manual_seed(1)
    model = Network().double()
    inputs = torch.randn(SIZE, 3, dtype=torch.float64)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    with join() as job:
        replica = Replica(job, model, optimizer, ElasticSampler(SIZE, 12, 4, EPOCHS), backend="gloo")
        losses = [taken.loss for taken in replica.steps(lambda ids: model(inputs[ids]).mean())]
        leave_group(job)
    tensors = [each.double() for name, each in model.state_dict().items() if name != "constant"]
    return losses, [float(each.sum()) for each in tensors], [float(each.abs().sum()) for each in tensors]


def in_processes(world):
    """Returns the results of all workers. They are forked, because each start of PyTorch takes seconds."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    pipes, pids = [], []
    for rank in range(world):
        out, to = os.pipe()
        if (pid := os.fork()) == 0:
            status = 1
            try:
                os.write(to, json.dumps(train(rank, world, port)).encode())
                status = 0
            finally:
                os._exit(status)
        os.close(to)
        pipes.append(out)
        pids.append(pid)
    results = []
    for out, pid in zip(pipes, pids):
        with os.fdopen(out, "rb") as file:
            text = file.read()
        status = os.waitpid(pid, 0)[1]
        if status or not text:
            raise AssertionError(f"a worker of {world} ended with {status}")
        results.append(json.loads(text))
    return results


class ExactTest(unittest.TestCase):
    def test_losses_and_weights_are_those_of_one_worker(self):
        (alone, weights, sizes), = in_processes(1)
        self.assertEqual(len(alone), 3 * EPOCHS)
        self.assertEqual(len(set(alone)), len(alone), "it learns")
        for world in (2, 3):
            with self.subTest(world=world):
                for losses, got, _ in in_processes(world):
                    for mine, wanted in zip(losses, alone, strict=True):
                        self.assertAlmostEqual(mine, wanted, delta=1e-12 * max(1.0, abs(wanted)))
                    for mine, wanted, size in zip(got, weights, sizes, strict=True):  # thousands of terms cancel out
                        self.assertAlmostEqual(mine, wanted, delta=1e-12 * max(1.0, size))


if __name__ == "__main__":
    unittest.main()
