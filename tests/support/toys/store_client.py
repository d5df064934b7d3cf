"""A client of PyTorch's TCPStore in plain Python, and workers that use it. The protocol: launcher/store/store_requests.h.

store_client.py ACT: late: rank 0 ends at once, the others meet in the store afterwards; fresh: attempt 0 leaves a key and
fails, attempt 1 counts keys; endpoint: late, at HOST:PORT of the next argument."""
import os
import socket
import struct
import sys
import time

# Write whole lines: `python -u` would write the parts of a line separately, and workers of torchrun share a pipe.
sys.stdout.reconfigure(line_buffering=True, write_through=False)


class Store:
    def __init__(self, host, port, patience=30):
        end = time.monotonic() + patience
        while True:
            try:
                self.socket = socket.create_connection((host, port), timeout=patience)
                break
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)
        self.say(b"\0" + struct.pack("<I", 0x3C85F7CE) + b"\x0d" + struct.pack("<I", 7))
        assert self.hear(4) == struct.pack("<I", 7), "it does not answer a ping"

    def say(self, data):
        self.socket.sendall(data)

    def hear(self, size):
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            if not more:
                raise ConnectionError("the store is gone")
            data += more
        return data

    @staticmethod
    def text(value):
        return struct.pack("<Q", len(value)) + value

    def set(self, key, value):
        self.say(b"\x01" + self.text(key) + self.text(value))

    def get(self, key):
        self.say(b"\x06" + struct.pack("<Q", 1) + self.text(key))
        assert self.hear(1) == b"\0"
        self.say(b"\x03" + self.text(key))
        return self.hear(struct.unpack("<Q", self.hear(8))[0])

    def add(self, key, amount):
        self.say(b"\x04" + self.text(key) + struct.pack("<q", amount))
        return struct.unpack("<q", self.hear(8))[0]

    def count(self):
        self.say(b"\x07")
        return struct.unpack("<q", self.hear(8))[0]


def late(host, port):
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = Store(host, port)
    if rank == 0:
        store.set(b"hello", b"from rank 0")
        store.count()  # it has arrived
        return
    assert store.get(b"hello") == b"from rank 0"
    time.sleep(1.5)
    last = store.add(b"late", 1) == world - 1
    if last:
        store.set(b"all", b"yes")
    print("LATE", store.get(b"all").decode(), flush=True)


def fresh(host, port):
    attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    store = Store(host, port)
    if attempt == 0:
        store.set(b"old", b"1")
        store.count()
        sys.exit(3)
    print("KEYS", store.count(), flush=True)


act = sys.argv[1]
print("AGENT STORE", os.environ["TORCHELASTIC_USE_AGENT_STORE"], flush=True)
if act == "endpoint":
    host, port = sys.argv[2].rsplit(":", 1)
    late(host, int(port))
else:
    {"late": late, "fresh": fresh}[act](os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
