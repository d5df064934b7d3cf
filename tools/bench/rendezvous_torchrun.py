"""torchrun's agents beside mtrun's, for tools/bench/rendezvous --torchrun N: the same five mishaps, each until every worker
that should run has been started anew in one group. The worker is a Python program that notes its start and sleeps."""
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

PATIENCE = 90.0  # after that: "not in 90 s"
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


class Job:
    """So many agents on this machine, each with one worker; agent 0 hosts."""

    def __init__(self, launcher, low, high, folder, port):
        self.launcher, self.nodes, self.port, self.folder = launcher, f"{low}:{high}", port, folder
        self.notes = os.path.join(folder, "notes")
        self.worker = os.path.join(folder, "worker.py")
        with open(self.worker, "w", encoding="utf-8") as file:
            file.write(WORKER)
        self.agents = []

    def add(self):
        number = str(len(self.agents))
        command = [*self.launcher, "--nnodes", self.nodes, "--nproc_per_node", "1", "--max_restarts", "20", "--rdzv_backend",
                   "c10d", "--rdzv_endpoint", f"127.0.0.1:{self.port}", "--rdzv_id", "bench"]
        # torchrun waits 30 s for more nodes; both get one second.
        command += ["--rdzv_conf", "last_call_timeout=1"]
        log = open(os.path.join(self.folder, f"agent{number}.log"), "w", encoding="utf-8")
        self.agents.append(subprocess.Popen([*command, self.worker, self.notes, number], stdout=log, stderr=log,
                                            start_new_session=True))
        log.close()

    def await_host(self):
        """Until somebody listens at the endpoint, so that it is agent 0. Python needs seconds for that, and when the first is so
        far ahead of the others it does not wait for them: then they start together."""
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.05)

    def await_group(self, after, world, others=None):
        """When the last of `world` workers that began after `after` in one group did so; None: not in time."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            groups = {}
            if os.path.exists(self.notes):
                for line in open(self.notes, encoding="utf-8"):
                    when, pid, size, master, agent = line.split()
                    if float(when) > after and int(size) == world:
                        groups.setdefault(master, {})[agent] = float(when)
            for members in groups.values():
                if len(members) == world:
                    return max(members.values())
            time.sleep(0.01)
        return None

    def worker_of(self, number):
        last = None
        for line in open(self.notes, encoding="utf-8"):
            words = line.split()
            if words[4] == str(number):
                last = int(words[1])
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
        for line in open(self.notes, encoding="utf-8") if os.path.exists(self.notes) else []:
            end_process(int(line.split()[1]), self.worker)
        for agent in self.agents:
            if agent.poll() is None:
                os.killpg(agent.pid, signal.SIGKILL)
            agent.wait()


def end_process(pid, word):
    """Only if it still is that program."""
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


MISHAPS = {"worker killed": worker_killed, "node killed": node_killed, "node silent": node_silent, "scale-up": scale_up,
           "graceful leave": graceful_leave}


def measure(launcher, mishap, n, port):
    with tempfile.TemporaryDirectory(prefix="mtrun-bench-") as folder:
        job = Job(launcher, 1, n + 1 if mishap is scale_up else n, folder, port)
        try:
            job.add()
            job.await_host()
            for _ in range(n - 1):
                job.add()
            if job.await_group(0, n) is None:
                return None
            time.sleep(1)
            happened = time.monotonic()
            world = mishap(job, n)
            formed = job.await_group(happened, world)
            return None if formed is None else formed - happened
        finally:
            job.end()


def compare(build, n, rounds):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is ended on the way out
    mtrun = [os.path.join(build, "bin", "mtrun")]
    torchrun = [peers_python(), "-m", "torch.distributed.run"]
    figures, port = {}, 29650
    for name, mishap in MISHAPS.items():
        for who, launcher in (("mtrun", mtrun), ("torchrun", torchrun)):
            times = []
            for _ in range(rounds):
                port += 1
                times.append(measure(launcher, mishap, n, port))
                if who == "torchrun" and times[-1] is None:
                    break  # it will not be otherwise the next time
            figures[f"{name}, {who}"] = times
        print(f"{name:15} {n} agents: " + ", ".join(f"{who} {text(figures[f'{name}, {who}'])}" for who in ("mtrun", "torchrun")),
              flush=True)
    return figures


def text(times):
    if any(t is None for t in times):
        return f"not in {PATIENCE:.0f} s"
    return f"{statistics.median(times):.2f} s ({max(times):.2f})"


if __name__ == "__main__":
    compare(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
