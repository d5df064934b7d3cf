"""A worker with a child process. On a signal that stops a job it prints it and exits with 0. Its child, which does not handle
it, is ended by the same signal: torchrun and mtrun signal whole process groups."""
import signal
import subprocess
import sys

SIGNALS = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR2]

child = subprocess.Popen(["sleep", "1000"])
# Waited for, not handled: a handler that Python should call between "UP" and a pause would wait forever.
signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
# One write per line, even if Python does not buffer: two workers share a pipe.
sys.stdout.write(f"UP {child.pid}\n")
sys.stdout.flush()
sys.stdout.write(f"GOT {signal.Signals(signal.sigwait(SIGNALS)).name}\n")
sys.stdout.flush()
