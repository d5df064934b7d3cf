"""A cooperative worker without any library: outlives its generation and joins the next one.

SIGTERM: it leaves. SIGUSR1: its work is done.
"""
import base64
import json
import os
import selectors
import signal
import socket
import sys

channel = socket.socket(socket.AF_UNIX)
channel.connect(os.environ["MTRUN_SOCKET"].replace("@", "\0", 1))


def say(kind, **fields):
    channel.sendall((json.dumps({"type": kind, **fields}) + "\n").encode())


def leave(kind, **fields):
    say(kind, **fields)
    sys.exit(0)


wake_read, wake_write = socket.socketpair()
for end in (wake_read, wake_write):
    end.setblocking(False)
signal.set_wakeup_fd(wake_write.fileno())
for number in (signal.SIGTERM, signal.SIGUSR1):
    signal.signal(number, lambda *_: None)

say("hello", protocol=1, pid=os.getpid(), local_rank=int(os.environ["LOCAL_RANK"]), cooperative=True)
selector = selectors.DefaultSelector()
selector.register(channel, selectors.EVENT_READ)
selector.register(wake_read, selectors.EVENT_READ)
mine, pending = None, b""  # the assignment; the received part of the next line
while True:
    ready = [key.fileobj for key, _ in selector.select()]
    if wake_read in ready:
        if signal.SIGUSR1 in wake_read.recv(16):
            leave("done", step=7)
        leave("leaving", why="SIGTERM")
    if channel not in ready:
        continue
    pending += (received := channel.recv(65536))
    if not received:
        sys.exit("the agent is gone")
    *lines, pending = pending.split(b"\n")
    for message in map(json.loads, lines):
        if message["type"] == "assignment":
            mine = message
            generation = mine["generation"]
            say("store_set", key=f"rank{mine['rank']}", generation=generation,
                value=base64.b64encode(str(os.getpid()).encode()).decode())
            say("store_wait", id=int(generation.split(".")[0]), generation=generation,
                keys=[f"rank{rank}" for rank in range(mine["world_size"])])
        elif message["type"] == "store_values" and not message["error"]:
            number = int(mine["generation"].split(".")[0])
            if message["id"] == number:
                print(f"in generation {number}: rank {mine['rank']} of {mine['world_size']} pid {os.getpid()} .",
                      flush=True)
        elif message["type"] == "dissolved":
            print(f"dissolved generation {message['generation'].split('.')[0]}", flush=True)
