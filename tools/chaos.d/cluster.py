"""Simulates machines on one: each has a network namespace and a host name, and a bridge in its own namespace connects
them.

They end with this process, even if it is killed, because they have no names outside. Without root, all are in one user
namespace."""
import ctypes
import os
import signal
import subprocess
import sys
import time
import uuid

import mounts

MARK = "MTRUN_CHAOS_MARK"  # in the environment of every process: value TAG-NODE, or TAG-hub
HUB = "hub"
PR_SET_PDEATHSIG = 1


class NoNetwork(Exception):
    """Namespaces cannot be created here; the text says why."""


def die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def marks():
    """Returns {pid: mark} of every living process that has a mark."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                variables = file.read().split(b"\0")
            with open(f"/proc/{entry}/stat", "rb") as file:
                state = file.read().rsplit(b")", 1)[1].split()[0]
        except OSError:
            continue
        for variable in variables:
            if variable.startswith(MARK.encode() + b"=") and state not in (b"Z", b"X"):
                found[int(entry)] = variable.split(b"=", 1)[1].decode()
    return found


def child(pid):
    """Returns the first child of a process, or None."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            children = file.read().split()
    except OSError:
        return None
    return int(children[0]) if children else None


def agent(front):
    """Returns mtrun's grandchild (launcher/workers/guardian.h), or None."""
    return child(child(front) or 0)


def send(pid, number):
    """Sends a signal to a process, which may be gone."""
    try:
        os.kill(pid, number)
        return True
    except (ProcessLookupError, TypeError):
        return False


class Cluster:
    """`nodes` machines 10.79.0.1 ..., named node0 ..., and the hub at 10.79.0.100."""

    def __init__(self, nodes):
        self.count = nodes
        self.tag = uuid.uuid4().hex[:12]
        self.own_user = os.geteuid() != 0
        self.holders = []  # the hub first
        for name in [HUB] + [f"node{node}" for node in range(nodes)]:
            self.holders.append(self._hold(name))
        self._wire()

    def address(self, node):
        return "10.79.0.100" if node == HUB else f"10.79.0.{node + 1}"

    def run(self, node, script):
        """Runs a shell script on that machine."""
        done = subprocess.run(self.on(node, ["sh", "-c", script]), capture_output=True, text=True)
        if done.returncode:
            raise NoNetwork(f"{script}: {done.stderr.strip()}")

    def on(self, node, argv):
        """Returns `argv` changed so that it runs on that machine; the process is the program's own."""
        holder = self.holders[0 if node == HUB else node + 1]
        user = ["--user", "--preserve-credentials"] if self.own_user else []
        return ["nsenter", "--target", str(holder.pid), "--net", "--uts"] + user + argv

    def start(self, node, argv, log, environment):
        """Starts a program on that machine; its output is appended to `log`."""
        with open(log, "ab") as out:
            return subprocess.Popen(self.on(node, argv), stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                    env={**environment, MARK: f"{self.tag}-{node}"}, preexec_fn=die_with_parent,
                                    start_new_session=True)

    def set_link(self, node, up):
        """Takes the machine's cable out of the switch or puts it back."""
        self.run(HUB, f"ip link set port{node} {'up' if up else 'down'}")

    def set_uplink(self, nodes, up):
        """Disconnects or reconnects the uplink of these machines: without it they only see each other."""
        self.run(HUB, " && ".join(f"ip link set port{node} master {'hub' if up else 'rack'}" for node in nodes))

    def processes(self, node=None):
        """Returns the living processes of one machine, or of all including the hub's service."""
        wanted = self.tag if node is None else f"{self.tag}-{node}"
        return [pid for pid, mark in marks().items() if (mark.split("-")[0] if node is None else mark) == wanted]

    def kill_all(self, node=None, patience=5):
        """Sends SIGKILL until no process is left, like a power failure; returns the remaining processes."""
        end = time.monotonic() + patience
        while (left := self.processes(node)) and time.monotonic() < end:
            for pid in left:
                send(pid, signal.SIGKILL)
            time.sleep(0.002)
        return left

    def close(self):
        self.kill_all()
        for holder in self.holders:
            for stream in (holder.stdin, holder.stdout, holder.stderr):
                stream.close()
            holder.wait()

    def _hold(self, name):
        enter = ["unshare", "--net", "--uts"]
        if self.own_user and not self.holders:
            enter = ["unshare", "--user", "--map-root-user", "--net", "--uts"]
        elif self.own_user:
            enter = ["nsenter", "--target", str(self.holders[0].pid), "--user", "--preserve-credentials"] + enter
        script = f"hostname {name} && ip link set lo up && echo ready && exec cat"
        holder = subprocess.Popen(enter + ["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True)
        if holder.stdout.readline() != "ready\n":
            raise NoNetwork("no network namespaces here (they need root or unprivileged user namespaces): "
                            + holder.stderr.read().strip())
        return holder

    def _wire(self):
        # A bridge without its own address uses the lowest of its ports' addresses, which changes when a port goes.
        script = "ip link add hub address 02:00:0a:4f:00:64 type bridge"
        script += f" && ip addr add {self.address(HUB)}/24 dev hub && ip link set hub up"
        script += " && ip link add rack type bridge && ip link set rack up"
        for node in range(self.count):
            script += (f" && ip link add port{node} type veth peer name eth0 netns {self.holders[node + 1].pid}"
                       f" && ip link set port{node} master hub && ip link set port{node} up")
        self.run(HUB, script)
        for node in range(self.count):
            self.run(node, f"ip addr add {self.address(node)}/24 dev eth0 && ip link set eth0 up")


def make_cluster(nodes, who):
    """Returns the cluster, or ends the program with one sentence and 77, which test runners take for "skipped"."""
    try:
        mounts.own()
        return Cluster(nodes)
    except (NoNetwork, OSError) as error:
        print(f"{who}: {error}", file=sys.stderr)
        sys.exit(77)
