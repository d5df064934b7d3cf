"""A network that fully_shard divides among the workers of a node, and workers that train it: forked from the test, or
as processes of their own whose agents the test plays."""
import json
import os
import socket
import traceback

import torch
from mtrun import ElasticSampler, Evaluation, join
from mtrun.loader import Ids
from mtrun.replica import Replica
from mtrun.torch import leave_group
from torch.distributed.fsdp import fully_shard

TENSORS = 14  # of the network
SIZE, GLOBAL_BATCH, MICRO_BATCH = 24, 10, 2  # the last step of an epoch has two micro-batches, the others five


class Network(torch.nn.Module):
    """Has buffers, a frozen parameter, rows that do not divide evenly, and one parameter with less rows than shards."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(3, 6, bias=False)  # its gradient would be rounding errors, which Adam magnifies
        self.norm = torch.nn.BatchNorm1d(6)
        self.middle = torch.nn.Sequential(torch.nn.Linear(6, 7), torch.nn.Tanh(), torch.nn.Linear(7, 5))
        self.frozen = torch.nn.Linear(5, 5).requires_grad_(False)
        self.last = torch.nn.Linear(5, 1)

    def forward(self, x):
        return self.last(self.frozen(self.middle(torch.tanh(self.norm(self.first(x)))))).pow(2).mean()


def shard(model, mesh):
    fully_shard(model.middle, mesh=mesh)
    fully_shard(model, mesh=mesh)


class Training:
    """What every worker makes. `sharded`: or each worker holds the model whole."""

    def __init__(self, job, sharded=True, epochs=2, optimizer=None, seed=1, evaluates=False, **options):
        torch.manual_seed(seed)
        self.model = Network().double()
        torch.manual_seed(1)
        self.inputs = torch.randn(SIZE, 3, dtype=torch.float64)
        self.optimizer = (optimizer or torch.optim.AdamW)(self.model.parameters(), lr=0.01)
        self.evaluation = Evaluation(self.model, range(SIZE), self.measure, micro_batch=2, monitor="loss",
                                     mode="min") if evaluates else None
        sampler = ElasticSampler(SIZE, GLOBAL_BATCH, MICRO_BATCH, epochs)
        self.replica = Replica(job, self.model, self.optimizer, sampler, backend="gloo", evaluation=self.evaluation,
                               shard=shard if sharded else None, **options)

    def measure(self, batch):
        return {"loss": self.model(self.inputs[batch]) * len(batch)}

    def steps(self, max_norm=0.5, norm_type=2.0, infinite=(), begun=lambda step: None):
        """Yields each committed step. `infinite`: numbers of steps with an infinite loss. `begun`: called with each
        attempt."""
        for step in self.replica.train(Ids(self.replica.sampler)):
            begun(step)
            for ids in step:
                loss = self.model(self.inputs[ids])
                step.backward(loss * float("inf") if step.number in infinite else loss)
            if step.apply(max_norm, norm_type):
                yield step

    def weights(self):
        """Returns the sums of all tensors; a collective of the workers of a node."""
        values = self.model.state_dict().values()
        return [float((each.full_tensor() if hasattr(each, "full_tensor") else each).double().sum()) for each in values]


def figures(nodes, workers, options=None, steps=None):
    """Returns [loss, norm, skipped, ...] and the sums of the final weights of each worker. The workers are forked,
    because each start of PyTorch takes seconds."""
    def train():
        with join() as job:
            training = Training(job, **(options() if options else {}))
            told = []
            for step in training.steps(**(steps or {})):
                told += [step.loss, float(step.norm), step.skipped]
            told += training.weights()
            if training.evaluation:
                told += [result.means["loss"] for result in training.evaluation.results]
            leave_group(job)
        return told

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    pipes = []
    for rank in range(nodes * workers):
        out, to = os.pipe()
        if (pid := os.fork()) == 0:
            status = 1
            try:
                os.environ.update(RANK=str(rank), WORLD_SIZE=str(nodes * workers), LOCAL_RANK=str(rank % workers),
                                  LOCAL_WORLD_SIZE=str(workers), GROUP_RANK=str(rank // workers),
                                  MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
                os.write(to, json.dumps(train()).encode())
                status = 0
            except Exception:
                traceback.print_exc()
            finally:
                os._exit(status)
        os.close(to)
        pipes.append((out, pid))
    results = []
    for out, pid in pipes:
        with os.fdopen(out, "rb") as file:
            text = file.read()
        if os.waitpid(pid, 0)[1] or not text:
            raise AssertionError(f"a worker of {nodes} nodes with {workers} has failed")
        results.append(json.loads(text))
    return results


# A worker; its last argument is its seed. It prints "wants N" before each attempt at step N, waits for a line, and
# prints "loss N ..." and "did N" after it.
WORKER = """import os
import sys
sys.path[:0] = [sys.argv[1], os.path.join(sys.argv[1], "..", "tests", "python")]
import mtrun
import torch
from hsdp_workers import Training
torch.set_num_threads(1)

def begun(step):
    print("wants", step.number, flush=True)
    sys.stdin.readline()

with mtrun.join() as job:
    training = Training(job, epochs=4, seed=int(sys.argv[3]), folder=sys.argv[2])
    for step in training.steps(begun=begun):
        print("loss", step.number, repr(step.loss), repr(float(step.norm)), flush=True)
        print("did", step.number, flush=True)
print("ended", flush=True)
"""
