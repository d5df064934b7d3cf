"""A worker with a child of its own. On a signal that stops a job it says so and ends with 0; its child, which knows nothing
of that, is ended by the same signal: torchrun and mtrun signal whole process groups."""
import os
import signal
import subprocess
import sys


def on_signal(number, _frame):
    print("GOT", signal.Signals(number).name, flush=True)
    os._exit(0)


child = subprocess.Popen(["sleep", "1000"])
for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR2"):
    signal.signal(getattr(signal, name), on_signal)
print("UP", child.pid, flush=True)
while True:
    signal.pause()
