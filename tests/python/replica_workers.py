"""Workers that train a Replica in separate processes, with agents simulated by the tests. It needs PyTorch, but not NumPy."""
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import support
from support import Agent, assignment

SOON = 60.0  # seconds: a start of PyTorch on a loaded machine
# A worker. `norm`: its network has buffers; `wide`: larger ones; `strays`: rank 0 changes them outside a step; `unlocked`: its
# file system has no locks. Its environment can contain CHECKPOINT_STEPS and EPOCHS. It prints "wants N" before step N,
# continues on request ("over": when its generation is over), and prints "did N" after it.
WORKER = """import errno
import fcntl
import os
import sys
sys.modules["numpy"] = None
sys.path.insert(0, sys.argv[1])
import torch
import mtrun
from mtrun.replica import Replica

def unlocked(*_):
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

if sys.argv[3] == "unlocked":
    fcntl.flock = unlocked
torch.manual_seed(0)
model = torch.nn.Linear(2, 1)
if sys.argv[3] in ("norm", "wide", "strays"):
    width = 4 if sys.argv[3] == "wide" else 3
    model = torch.nn.Sequential(torch.nn.Linear(2, width), torch.nn.BatchNorm1d(width), torch.nn.Linear(width, 1))
model = model.double()
buffers = lambda: [float(x) for b in model.buffers() for x in b.reshape(-1)]
sampler = mtrun.ElasticSampler(40, 4, 2, epochs=int(os.environ.get("EPOCHS", "1")))

def loss_of(ids):
    print("before", sampler.step, *buffers(), flush=True)
    print("wants", sampler.step, flush=True)
    if sys.stdin.readline() == "over\\n":
        job.wait_until_over(60)
    return model(torch.tensor([[float(i), 1.0 + i % 3] for i in ids], dtype=torch.float64)).pow(2).mean()

with mtrun.join() as job:
    replica = Replica(job, model, torch.optim.SGD(model.parameters(), lr=1e-4), sampler, folder=sys.argv[2],
                      checkpoint_steps=int(os.environ.get("CHECKPOINT_STEPS", "0")))
    for taken in replica.steps(loss_of):
        print("loss", taken.step, taken.loss, flush=True)
        print("did", taken.step, flush=True)
        if sys.argv[3] == "strays" and job.rank == 0:
            model(torch.ones(4, 2, dtype=torch.float64))
print("ended", flush=True)
"""


class Worker:
    """A process and its agent. `values`: the key-value space, shared by a generation. `alone`: without an agent, possibly
    with `variables` of another launcher. `lease`: of the node."""

    def __init__(self, case, folder, values, model="plain", alone=False, lease=None, variables=None, program=WORKER):
        self.agent, self.values, self.heard, self.lines = Agent(), values, [], []
        case.addCleanup(self.agent.close)
        environment = {**os.environ, **({} if alone else self.agent.environment()), **(variables or {}),
                       "PYTHONDONTWRITEBYTECODE": "1", "PYTHONWARNINGS": "ignore::UserWarning"}  # PyTorch's, for the missing NumPy
        if lease is not None:
            environment["MTRUN_LEASE"] = str(lease)
        package = os.path.join(support.ROOT, "python")
        self.process = subprocess.Popen([sys.executable, "-c", program, package, folder, model], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment,
                                        pass_fds=[] if lease is None else [lease])
        case.addCleanup(self.close)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.threads = [self.reader] + ([] if alone else [threading.Thread(target=self._serve, daemon=True)])
        for thread in self.threads:
            thread.start()

    def close(self):
        self.process.kill()
        self.process.wait()
        for thread in self.threads:
            thread.join()
        self.process.stdin.close()
        self.process.stdout.close()

    def tell_to_give_up(self, micro_batches=1):
        """Ends a step that waits for the imminent end of its generation."""
        self.process.stdin.write("over\n")
        self.tell(micro_batches - 1)

    def tell(self, micro_batches=1):
        self.process.stdin.write(micro_batches * "\n")
        self.process.stdin.flush()

    def told(self, word, step):
        """Returns the numbers in its last line of this kind."""
        line = [line.split() for line in self.lines if line.startswith(f"{word} {step} ")][-1]
        return [float(number) for number in line[2:]]

    def await_line(self, line):
        self._await(lambda: line in self.lines, f"'{line}'")

    def await_message(self, kind, count=1):
        self._await(lambda: sum(said["type"] == kind for said in self.heard) >= count, kind)

    def _await(self, holds, what):
        wait(lambda: holds() or self.process.poll() is not None, lambda: f"no {what} but {self.lines}, {self.heard}")
        if not holds():
            raise AssertionError(f"it has ended with {self.process.returncode} without {what}: {self.lines}")

    def status(self):
        """Returns its exit status when it has ended and all output is in `lines`."""
        status = self.process.wait(SOON)
        self.reader.join(SOON)
        return status

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line.strip())

    def _serve(self):
        self.agent.accept(None)
        while said := self.agent.heard():
            if said["type"] == "store_set":
                self.values[said["key"]] = said["value"]
            elif said["type"] == "store_wait":
                wait(lambda: all(key in self.values for key in said["keys"]), lambda: f"no {said['keys']}")
                self.agent.say({"type": "store_values", "id": said["id"],
                                "values": {key: self.values[key] for key in said["keys"]}})
            self.heard.append(said)


def wait(holds, why):
    deadline = time.monotonic() + SOON
    while not holds():
        if time.monotonic() >= deadline:
            raise TimeoutError(why())
        time.sleep(0.005)


def checkpoints_in(folder):
    """Returns the names of whole checkpoints, also of earlier releases and other branches."""
    return sorted(name for name in os.listdir(folder) if re.fullmatch(r"(branch_\d+_)?replica_\d+(\.\d+)?(\.pt)?", name))


DRAIN = {"type": "drain", "deadline_seconds": 30, "why": "asked"}


class ReplicaCase(unittest.TestCase):
    def start(self, model="plain", lease=None):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.values = folder.name, {}
        self.workers = [Worker(self, folder.name, self.values, model, lease=lease) for _ in range(2)]
        for rank, worker in enumerate(self.workers):
            worker.await_message("ready")
            worker.agent.say(assignment(1, rank=rank))
        for worker in self.workers:
            worker.await_line("wants 0")

    def step(self, number):
        for worker in self.workers:
            worker.tell()
        for worker in self.workers:
            worker.await_line(f"did {number}")

    def checkpoints(self):
        return checkpoints_in(self.folder)

    def verify(self):
        verify = [sys.executable, os.path.join(support.ROOT, "tools", "verify_ledger"), self.folder, "--partial"]
        done = subprocess.run(verify, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
