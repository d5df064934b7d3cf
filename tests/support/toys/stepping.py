"""A cooperative worker without any library that makes steps and reports them, like trainers.

It takes 50 ms per step, reports how much of that it waited for input if the job is watched, and prints a line that no page
may interpret as HTML. If it is drained or gets SIGTERM, it leaves after its step.
"""
import json
import os
import select
import signal
import socket
import sys
import time

channel = socket.socket(socket.AF_UNIX)
channel.connect(os.environ["MTRUN_SOCKET"].replace("@", "\0", 1))
leaving = []
signal.signal(signal.SIGTERM, lambda *_: leaving.append("SIGTERM"))


def say(kind, **fields):
    channel.sendall((json.dumps({"type": kind, **fields}) + "\n").encode())


say("hello", protocol=1, pid=os.getpid(), local_rank=int(os.environ["LOCAL_RANK"]), cooperative=True, reports=True)
pending, generation, rank, step, watched, told = b"", None, 0, 0, 0.0, 0.0
while not leaving:
    if select.select([channel], [], [], 0.05)[0]:
        pending += (received := channel.recv(65536))
        if not received:
            sys.exit("the agent is gone")
    *lines, pending = pending.split(b"\n")
    for message in map(json.loads, lines):
        if message["type"] == "assignment":
            generation, rank = message["generation"], message["rank"]
            say("ready", generation=generation)
            print(f"rank {rank} of {message['world_size']} says <script>document.title='taken'</script>", flush=True)
        elif message["type"] == "dissolved":
            generation = None
        elif message["type"] == "drain":
            leaving.append(message["why"])
        elif message["type"] == "watch":
            watched = time.monotonic() + message["seconds"]
    if generation is None:
        continue
    step += 1
    say("progress", epoch=0, step=step, samples=32 * step)
    if time.monotonic() < watched and time.monotonic() - told >= 2:
        told = time.monotonic()
        say("step_times", step=step, data_seconds=0.004, exchange_seconds=0.0 if rank == 1 else 0.03,
            loss=2.5 / (1 + step / 100), learning_rate=0.05)
say("leaving", why=leaving[0])
