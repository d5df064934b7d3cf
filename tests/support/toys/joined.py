"""A cooperative worker with the Python package, without torch: enters one generation after the other, and prints the same
lines as the C++ toy worker. Its steps load data for 4 ms; then the others wait for rank 1, which computes. SIGTERM: it leaves.
SIGUSR1: its work is done."""
import contextlib
import os
import signal
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "python"))

import mtrun  # noqa: E402

finished = threading.Event()


def meet(job):
    """Announces itself to all members and waits for each of them."""
    job.store.set(f"rank{job.rank}", str(os.getpid()).encode())
    job.store.wait(*[f"rank{rank}" for rank in range(job.world_size)])
    print(f"in generation {job.number}: rank {job.rank} of {job.world_size} pid {os.getpid()} .", flush=True)


def take_step(job, step):
    with job.loads():
        time.sleep(0.004)
    with job.waits() if job.rank != 1 else contextlib.nullcontext():
        job.wait_until_over(0.02)
    job.progress(0, step, 32 * step)


with mtrun.join() as job:
    step = 0
    signal.signal(signal.SIGUSR1, lambda *_: finished.set())
    while True:
        try:
            meet(job)
            while not job.changed() and not finished.is_set():
                step += 1
                take_step(job, step)
            if finished.is_set() and job.done(7):
                break
            if job.leaves:
                job.leave()
                break
            print(f"dissolved generation {job.number}", flush=True)
        except mtrun.Interrupted:
            pass
        try:
            job.next()
        except mtrun.Stopped:
            break
