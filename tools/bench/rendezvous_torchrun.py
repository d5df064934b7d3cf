"""Runs torchrun's agents beside mtrun's, for tools/bench/rendezvous --torchrun N: the same five faults, each until all
workers have been restarted in one group. The worker is a Python program that records its start and sleeps.

torchrun runs twice: as shipped, and with TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1. As shipped, an agent keeps the address
of the first store that it used. After a change of membership, the workers of old and new agents use different stores:
they have the same world size and cannot meet ("split")."""
import collections
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

PATIENCE = 90.0  # after that: "not in 90 s"
SETTLED = 5.0  # workers of one world size at several addresses for this long will not meet any more
ATTEMPTS = 3  # to form the group that the fault hits
WORKER = r"""
import os, sys, time
with open(sys.argv[1], "a") as notes:
    notes.write(f"{time.monotonic()} {os.getpid()} {os.environ['WORLD_SIZE']} {os.environ['MASTER_PORT']} {sys.argv[2]}\n")
time.sleep(100000)
"""


def peers_python():
    named = os.environ.get("MT_PEERS_PYTHON")
    cache = os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))
    return named or os.path.join(cache, "mtrun", "peers", "bin", "python")


Launcher = collections.namedtuple("Launcher", "command environment")
# seconds: from the fault to the last worker's start; None if `why` describes another outcome.
Outcome = collections.namedtuple("Outcome", "seconds why")


class Job:
    """`n` agents on this machine, each with one worker; agent 0 hosts."""

    def __init__(self, launcher, low, high, folder, port):
        self.launcher, self.nodes, self.port, self.folder = launcher, f"{low}:{high}", port, folder
        self.notes = os.path.join(folder, "notes")
        self.worker = os.path.join(folder, "worker.py")
        with open(self.worker, "w", encoding="utf-8") as file:
            file.write(WORKER)
        self.agents = []

    def add(self):
        number = str(len(self.agents))
        command = [*self.launcher.command, "--nnodes", self.nodes, "--nproc_per_node", "1", "--max_restarts", "20", "--rdzv_backend",
                   "c10d", "--rdzv_endpoint", f"127.0.0.1:{self.port}", "--rdzv_id", "bench"]
        # torchrun waits 30 s for more nodes; both launchers get one second.
        command += ["--rdzv_conf", "last_call_timeout=1"]
        log = open(os.path.join(self.folder, f"agent{number}.log"), "w", encoding="utf-8")
        self.agents.append(subprocess.Popen([*command, self.worker, self.notes, number], stdout=log, stderr=log,
                                            start_new_session=True, env={**os.environ, **self.launcher.environment}))
        log.close()

    def await_host(self):
        """Waits until agent 0 listens at the endpoint. Python needs seconds for that. If the first agent is so far
        ahead that it would not wait for the others, all start together."""
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.05)

    def await_group(self, after, world):
        """Waits until `world` workers newer than `after` are in one group; returns when the last began, or why not."""
        end, split_since = time.monotonic() + PATIENCE, None
        while time.monotonic() < end:
            latest = self.latest_starts(after, world)
            groups = collections.Counter(master for _, master in latest.values())
            if world in groups.values():
                return Outcome(max(when for when, _ in latest.values()), "")
            if sum(groups.values()) != world:
                split_since = None
            elif split_since is None:
                split_since = time.monotonic()
            elif time.monotonic() - split_since > SETTLED:
                return Outcome(None, "split")
            time.sleep(0.01)
        return Outcome(None, f"not in {PATIENCE:.0f} s")

    def latest_starts(self, after, world):
        """Returns (when, master port) of each agent's last worker that began after `after` in a world of that size."""
        latest = {}
        for when, _, size, master, agent in self.starts():
            if float(when) > after:
                latest[agent] = (float(when), master, int(size))
        return {agent: (when, master) for agent, (when, master, size) in latest.items() if size == world}

    def starts(self):
        if not os.path.exists(self.notes):
            return []
        with open(self.notes, encoding="utf-8") as notes:
            return [line.split() for line in notes.read().splitlines()]

    def worker_of(self, number):
        last = None
        for _, pid, _, _, agent in self.starts():
            if agent == str(number):
                last = int(pid)
        return last

    def end(self):
        for agent in self.agents:
            try:
                agent.send_signal(signal.SIGCONT)
                agent.terminate()
            except ProcessLookupError:
                pass
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline and any(agent.poll() is None for agent in self.agents):
            time.sleep(0.05)
        for start in self.starts():
            end_process(int(start[1]), self.worker)
        for agent in self.agents:
            if agent.poll() is None:
                os.killpg(agent.pid, signal.SIGKILL)
            agent.wait()


def end_process(pid, word):
    """Ends a process if it is still that program."""
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
            if word in file.read():
                os.kill(pid, signal.SIGKILL)
    except (FileNotFoundError, ProcessLookupError):
        pass


def descendants(pid):
    found = [pid]
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children", encoding="utf-8") as children:
            for child in children.read().split():
                found += descendants(int(child))
    return found


def signal_node(agent, number):
    for pid in descendants(agent.pid):
        os.kill(pid, number)


def worker_killed(job, n):
    os.kill(job.worker_of(n - 1), signal.SIGKILL)
    return n


def node_killed(job, n):
    signal_node(job.agents[-1], signal.SIGKILL)
    return n - 1


def node_silent(job, n):
    signal_node(job.agents[-1], signal.SIGSTOP)
    return n - 1


def scale_up(job, n):
    job.add()
    return n + 1


def graceful_leave(job, n):
    job.agents[-1].terminate()
    return n - 1


FAULTS = {"worker killed": worker_killed, "node killed": node_killed, "node silent": node_silent, "scale-up": scale_up,
           "graceful leave": graceful_leave}


def measure(launcher, fault, n, ports):
    for _ in range(ATTEMPTS):
        outcome = attempt(launcher, fault, n, next(ports))
        if outcome is not None:
            return outcome
    return Outcome(None, f"did not form in {ATTEMPTS} attempts")


def attempt(launcher, fault, n, port):
    """Makes one attempt; None if the group to be hit did not form."""
    with tempfile.TemporaryDirectory(prefix="mtrun-bench-") as folder:
        job = Job(launcher, 1, n + 1 if fault is scale_up else n, folder, port)
        try:
            job.add()
            job.await_host()
            for _ in range(n - 1):
                job.add()
            if job.await_group(0, n).seconds is None:
                return None
            time.sleep(1)
            happened = time.monotonic()
            world = fault(job, n)
            formed = job.await_group(happened, world)
            return formed if formed.seconds is None else Outcome(formed.seconds - happened, "")
        finally:
            job.end()


def compare(build, n, rounds):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends all children on the way out
    torchrun = [peers_python(), "-m", "torch.distributed.run"]
    launchers = {"mtrun": Launcher([os.path.join(build, "bin", "mtrun")], {}), "torchrun": Launcher(torchrun, {}),
                 "torchrun, own stores": Launcher(torchrun, {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"})}
    ports, figures = iter(range(29650, 32000)), {}
    print(f"{n} agents, a worker each: seconds from the fault until all workers were started in one group, median (max) of {rounds}")
    print(f"{'':16}" + "".join(f"{who:>26}" for who in launchers), flush=True)
    for name, fault in FAULTS.items():
        outcomes = {who: [] for who in launchers}
        for _ in range(rounds):  # interleaved, so that other load on the machine affects all alike
            for who, launcher in launchers.items():
                outcomes[who].append(measure(launcher, fault, n, ports))
        figures.update({f"{name}, {who}": [outcome._asdict() for outcome in some] for who, some in outcomes.items()})
        print(f"{name:16}" + "".join(f"{text(some):>26}" for some in outcomes.values()), flush=True)
    return figures


def text(outcomes):
    times = [outcome.seconds for outcome in outcomes if outcome.seconds is not None]
    failures = collections.Counter(outcome.why for outcome in outcomes if outcome.seconds is None)
    parts = [f"{statistics.median(times):.2f} ({max(times):.2f})"] if times else []
    parts += [f"{count}x {why}" for why, count in failures.items()]
    return ", ".join(parts)


if __name__ == "__main__":
    compare(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
