#!/usr/bin/env python3
"""A trainer without torch for the replay of manifests: its workers meet in one generation after the other and print it. They
are done when the run folder has a file `finish`; a worker that is drained takes a second to save first."""
import os
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, "/opt/mtrun/python")

import mtrun  # noqa: E402

folder, = (word.split("=", 1)[1] for word in sys.argv[1:] if word.startswith("--model_folder="))
os.makedirs(folder, exist_ok=True)


def finished():
    return os.path.exists(os.path.join(folder, "finish"))


def save(job):
    time.sleep(1)
    with open(os.path.join(folder, f"saved-{os.uname().nodename}-{job.local_rank}"), "w", encoding="utf-8"):
        pass


with mtrun.join() as job:
    while True:
        try:
            job.store.set(f"rank{job.rank}", b"here")
            job.store.wait(*[f"rank{rank}" for rank in range(job.world_size)])
            print(f"generation {job.number}: rank {job.rank} of {job.world_size} .", flush=True)
            while not job.changed() and not finished():
                job.wait_until_over(0.02)
            if finished() and job.done(7):
                break
            if job.leaves:
                save(job)
                job.leave()
                break
        except mtrun.Interrupted:
            pass
        try:
            job.next()
        except mtrun.Stopped:  # also if it is drained while it waits for others
            save(job)
            break
