"""A worker without libraries that takes steps with the others and keeps its own record.

A step is a real one: rank 0 sends a number to all workers over TCP and commits it when all have answered. So a
generation commits only while all of its members run it; a worker does not answer while its node's lease is over.
argv[1]: "cooperative" (outlives its generation) or "ordinary".
Rank 0 regularly prints a line that is longer than a block of the logs' disk, so that a full disk cannot take it even if
a file's last block has space left.
SIGTERM: a cooperative worker leaves. The work of job N is done if there is a file done-N beside the records."""
import base64
import contextlib
import json
import mmap
import os
import selectors
import signal
import socket
import struct
import sys
import time

STEP_SECONDS = 0.1
RETRY_SECONDS = 0.2
BROKEN_SECONDS = 2.0  # the agent reports a death; if it does not, the group is reported as broken
LINE_STEPS, LINE_BYTES = 10, 4200
BROKEN_STATUS = 75    # of an ordinary worker that ends for that reason: not its own fault (properties.py)

COOPERATIVE = sys.argv[1] == "cooperative"
HOST = socket.gethostname()
JOB = int(os.environ.get("MTRUN_CHAOS_JOB", "0"))
DONE = os.path.join(os.environ["MTRUN_CHAOS_RECORDS"], "..", f"done-{JOB}")
LEASE = mmap.mmap(int(os.environ["MTRUN_LEASE"]), 4096, prot=mmap.PROT_READ) if "MTRUN_LEASE" in os.environ else None
RECORDS = os.open(os.path.join(os.environ["MTRUN_CHAOS_RECORDS"], f"{HOST}-{os.getpid()}-{time.monotonic_ns()}.jsonl"),
                  os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def record(kind, **fields):
    line = {"t": time.monotonic(), "kind": kind, "host": HOST, "pid": os.getpid(), "job": JOB, **fields}
    os.write(RECORDS, (json.dumps(line) + "\n").encode())


def speak(step):
    with contextlib.suppress(OSError):  # the agent is gone
        os.write(1, f"step {step} ".encode().ljust(LINE_BYTES, b".") + b"\n")
        record("spoke")


def lease_is_over(generation):
    """Returns whether the lease of generation "NUMBER.ID" is over (base/lease_page.cc). After three words that describe
    the page come the ids and deadlines of the last eight, in nanoseconds since boot."""
    if LEASE is None:
        return False
    number, now = int(generation.split(".")[1], 16), time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    leases = struct.unpack_from("<" + 8 * "Qq", LEASE, 24)
    return not any(which == number and now < ends for which, ends in zip(leases[::2], leases[1::2]))


class Lines:
    """Reads and writes lines on a non-blocking socket."""

    def __init__(self, sock):
        self.sock, self.pending = sock, b""
        sock.setblocking(False)

    def read(self):
        """Returns the whole lines received; None if the peer is gone."""
        try:
            got = self.sock.recv(65536)
        except BlockingIOError:
            return []
        except OSError:
            return None
        if not got:
            return None
        *lines, self.pending = (self.pending + got).split(b"\n")
        return lines

    def write(self, text):
        try:
            self.sock.send(text.encode() + b"\n")  # a few bytes per step: they fit, or the peer is long gone
            return True
        except OSError:
            return False


class Group:
    """The workers of one generation, as seen by this one."""

    def __init__(self, worker, given):
        self.worker, self.given = worker, given
        self.rank, self.world = given["rank"], given["world_size"]
        self.number = int(given["generation"].split(".")[0])
        self.listener = self.root = None
        self.members = {}  # on rank 0: connection -> last answer
        self.step, self.asked = 0, None
        self.retry = self.broken = None
        self.connected, self.next = False, 0
        self.unanswered = []  # while the lease is over
        record("enter", generation=given["generation"], rank=self.rank, world=self.world, local_rank=given["local_rank"])
        if self.rank == 0:
            self.listener = socket.create_server(("", 0), backlog=64)
            self.listener.setblocking(False)
            worker.watch(self.listener, self.accept)
            worker.say("store_set", key="root", generation=given["generation"],
                       value=base64.b64encode(str(self.listener.getsockname()[1]).encode()).decode())
        else:
            worker.say("store_wait", id=self.number, generation=given["generation"], keys=["root"])

    def accept(self):
        lines = Lines(self.listener.accept()[0])
        self.members[lines] = -1
        self.worker.watch(lines.sock, lambda: self.hear(lines))
        if len(self.members) == self.world - 1:
            record("met", generation=self.given["generation"], world=self.world)

    def hear(self, lines):
        """Handles answers, on rank 0."""
        got = lines.read()
        if got is None and len(self.members) < self.world - 1:
            self.worker.forget(lines.sock)  # it will reconnect
            return self.members.pop(lines)
        if got is None:
            return self.lose(lines.sock)
        for line in got:
            self.members[lines] = int(line)

    def wants(self, message):
        return self.rank and not self.root and message["id"] == self.number and "root" in message["values"]

    def connect(self, port):
        self.port = port
        peer = next(p for p in self.given["peers"] if p["first_rank"] <= 0 < p["first_rank"] + p["workers"])
        sock = socket.socket()
        sock.setblocking(False)
        sock.connect_ex((peer["address"] or "127.0.0.1", port))
        self.root, self.retry = Lines(sock), None
        self.worker.watch(sock, self.follow)

    def follow(self):
        """Handles rank 0's numbers, on the other ranks."""
        got = self.root.read()
        if got is None:
            self.worker.forget(self.root.sock)
            if self.connected:
                self.broken = time.monotonic()
            else:
                self.retry = time.monotonic() + RETRY_SECONDS
            return
        self.connected = self.connected or bool(got)
        self.unanswered += got
        self.answer()

    def answer(self):
        while self.unanswered and not lease_is_over(self.given["generation"]):
            self.root.write(self.unanswered.pop(0).decode())

    def lose(self, sock):
        self.worker.forget(sock)
        self.broken = self.broken or time.monotonic()

    def turn(self, now):
        if self.retry and now >= self.retry:
            self.connect(self.port)
        if self.broken and now - self.broken > BROKEN_SECONDS:
            self.broken = now
            if not COOPERATIVE:
                print("the group is broken", file=sys.stderr)
                sys.exit(BROKEN_STATUS)
            self.worker.say("broken", generation=self.given["generation"], why="a peer closed the connection")
        if self.rank:
            return self.answer()
        if self.broken or len(self.members) < self.world - 1 or lease_is_over(self.given["generation"]):
            return
        if self.asked and all(answer == self.step for answer in self.members.values()):
            record("commit", generation=self.given["generation"], step=self.step, world=self.world)
            self.step, self.asked = self.step + 1, None
            if self.step % LINE_STEPS == 0:
                speak(self.step)
            if COOPERATIVE:
                self.worker.say("progress", epoch=0, step=self.step, samples=self.step)
            self.next = now + STEP_SECONDS
        if not self.asked and now >= self.next:
            self.asked = now
            for lines in self.members:
                lines.write(str(self.step))

    def close(self):
        record("left", generation=self.given["generation"])
        for sock in [self.listener, self.root and self.root.sock] + [lines.sock for lines in self.members]:
            if sock:
                self.worker.forget(sock)


class Worker:
    def __init__(self):
        self.selector, self.group, self.end = selectors.DefaultSelector(), None, None
        self.channel = Lines(socket.socket(socket.AF_UNIX))
        self.channel.sock.setblocking(True)
        self.channel.sock.connect(os.environ["MTRUN_SOCKET"].replace("@", "\0", 1))
        self.watch(self.channel.sock, self.listen)
        self.say("hello", protocol=1, pid=os.getpid(), local_rank=int(os.environ["LOCAL_RANK"]), address="",
                 cooperative=COOPERATIVE)
        if COOPERATIVE:
            signal.signal(signal.SIGTERM, lambda *_: self.finish("leaving", why="SIGTERM"))

    def watch(self, sock, call):
        self.selector.register(sock, selectors.EVENT_READ, call)

    def forget(self, sock):
        if sock.fileno() >= 0:
            self.selector.unregister(sock)
            sock.close()

    def say(self, kind, **fields):
        self.channel.sock.setblocking(True)
        self.channel.sock.sendall((json.dumps({"type": kind, **fields}) + "\n").encode())
        self.channel.sock.setblocking(False)

    def finish(self, kind, **fields):
        self.end = (kind, fields)

    def listen(self):
        lines = self.channel.read()
        if lines is None:
            record("orphan")
            os._exit(9)  # the agent is gone
        for message in map(json.loads, lines):
            kind = message["type"]
            if kind in ("assignment", "dissolved") and self.group:
                self.group.close()
                self.group = None
            if kind == "assignment":
                self.group = Group(self, message)
            elif kind == "store_values" and self.group and self.group.wants(message):
                self.group.connect(int(base64.b64decode(message["values"]["root"])))

    def run(self):
        while True:
            for key, _ in self.selector.select(0.02):
                if key.fileobj.fileno() >= 0:
                    key.data()
            if not self.end and os.path.exists(DONE):
                self.finish("done", step=7)
            if self.end:
                record(self.end[0])
                self.say(self.end[0], **self.end[1])
                sys.exit(0)
            if self.group:
                self.group.turn(time.monotonic())


record("start", generation=os.environ["MTRUN_GENERATION"], rank=int(os.environ["RANK"]),
       local_rank=int(os.environ["LOCAL_RANK"]))
Worker().run()
