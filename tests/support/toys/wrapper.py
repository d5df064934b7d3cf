"""A worker with a child of its own. On a signal that stops a job it says so and ends with 0; its child, which knows nothing
of that, is ended by the same signal: torchrun and mtrun signal whole process groups."""
import signal
import subprocess
import sys

SIGNALS = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR2]

child = subprocess.Popen(["sleep", "1000"])
# Waited for, not handled: a handler that Python was to call between "UP" and a pause would wait for ever.
signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
# One write a line, also where Python does not buffer: two workers share a pipe.
sys.stdout.write(f"UP {child.pid}\n")
sys.stdout.flush()
sys.stdout.write(f"GOT {signal.Signals(signal.sigwait(SIGNALS)).name}\n")
sys.stdout.flush()
