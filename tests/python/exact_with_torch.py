"""The bits of a Replica's run do not depend on the number of workers: gradients in buckets of every kind, buffers, dropout, uneven
shares and workers without a micro-batch. It needs PyTorch, but not NumPy; tests/e2e/python_package_test.cc runs it."""
import hashlib
import json
import os
import socket
import sys
import unittest

sys.modules["numpy"] = None  # PyTorch works without it

import support  # the package's path
import torch
from mtrun import ElasticSampler, Evaluation, join
from mtrun.gradients import OWN_BYTES
from mtrun.loader import Ids
from mtrun.replica import Replica
from mtrun.torch import leave_group

EPOCHS, SIZE = 2, 29  # the last step of an epoch has one micro-batch, so only one worker has one
WIDE = OWN_BYTES["cpu"] // 4 // 6 + 1  # a weight of 6 columns that is a bucket of its own; 4 and 8 workers do not divide it


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
        return self.wide(torch.nn.functional.dropout(torch.tanh(x), 0.2)).pow(2).mean(1)


def digest(tensors):
    return hashlib.sha256(b"".join(bytes(each.detach().contiguous().reshape(-1).view(torch.uint8).tolist()) for each in tensors)).hexdigest()


def train(rank, world, port, dtype):
    """Returns the losses of all steps as texts of all digits, and the digests of weights and optimizer."""
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(world),
                      MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = Network().to(dtype)
    inputs = torch.randn(SIZE, 3, dtype=dtype)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    losses = []
    evaluation = Evaluation(model, torch.utils.data.TensorDataset(inputs[:7]),
                            lambda batch: {"rows": model(batch[0]).sum(), "columns": model.first(batch[0]).sum(0), "samples": len(batch[0])},
                            micro_batch=2)
    with join() as job:
        replica = Replica(job, model, optimizer, ElasticSampler(SIZE, 14, 2, EPOCHS), backend="gloo", evaluation=evaluation)
        for step in replica.train(Ids(replica.sampler)):
            for ids in step:
                step.backward(model(inputs[ids]).mean())
            if step.apply(max_norm=0.5):
                losses.append(f"{step.loss:.17g} {step.norm.item():.17g}")
        leave_group(job)
    moments = [value for state in optimizer.state_dict()["state"].values() for value in state.values()]
    return losses, [repr(result.sums) for result in evaluation.results], digest(model.state_dict().values()), digest(moments)


def in_processes(world, dtype):
    """Returns the results of all workers. They are forked, because each start of PyTorch takes seconds."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    pipes, pids = [], []
    for rank in range(world):
        out, to = os.pipe()
        if (pid := os.fork()) == 0:
            status = 1
            try:
                os.write(to, json.dumps(train(rank, world, port, dtype)).encode())
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
    def expect_one_result(self, dtype):
        (alone,) = in_processes(1, dtype)
        losses = alone[0]
        self.assertEqual(len(losses), 3 * EPOCHS)
        self.assertEqual(len(set(losses)), len(losses), "it learns")
        for world in (2, 3, 4, 8):
            for rank, result in enumerate(in_processes(world, dtype)):
                self.assertEqual(result, alone, f"rank {rank} of {world}")

    def test_any_number_of_workers_gives_the_bits_of_one_in_float32(self):
        self.expect_one_result(torch.float32)

    def test_any_number_of_workers_gives_the_bits_of_one_in_float64(self):
        self.expect_one_result(torch.float64)


if __name__ == "__main__":
    unittest.main()
