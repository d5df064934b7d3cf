#!/usr/bin/env bash
# Two processes of one host that open a tensorboardX SummaryWriter on one folder within a second write the same file, each
# from its beginning, and one loses its curves without an error. The file's name has the second and the host's name only.
# The default folder has the same parts, so calls without arguments collide too. The workers of one node start at the same
# time, so a script that logs per worker under its own tags meets it. TensorBoard's own writer, which
# torch.utils.tensorboard uses, adds the process and a count to the name: both files stay.
#
# Seen: tensorboardX 2.6.5 beside tensorboard 2.21.0, which reads both. Source: tensorboardX/event_file_writer.py,
# EventsWriter.__init__, and record_writer.py, open_file (mode "wb").
#
# Connects to nothing but the package registry. Exits 0 as seen, 1 if it has changed, 77 if the packages cannot be had.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv && venv/bin/pip install --quiet --disable-pip-version-check tensorboardX==2.6.5 tensorboard==2.21.0 ||
  { echo "skipped: the packages cannot be installed here"; exit 77; }
cat >write.py <<'PYTHON'
"""write.py WRITER FOLDER NAME: opens a writer, waits for a line of input, writes three values of one tag and closes."""
import sys
import time

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from tensorboardX import SummaryWriter

kind, folder, name = sys.argv[1:]
print("imported", flush=True)
sys.stdin.readline()
began = int(time.time())
writer = SummaryWriter(folder) if kind == "tensorboardX" else EventFileWriter(folder)
print(began, int(time.time()), flush=True)
sys.stdin.readline()
for step in range(3):
    if kind == "tensorboardX":
        writer.add_scalar(f"loss/{name}", 1 / (step + 1), step)
    else:
        event = Event(step=step)
        event.summary.value.add(tag=f"loss/{name}", simple_value=1 / (step + 1))
        writer.add_event(event)
writer.close()
PYTHON
cat >both.py <<'PYTHON'
import glob
import subprocess
import sys
import time

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def seconds(kind, folder):
    """Returns the seconds in which two processes opened their writers."""
    processes = [subprocess.Popen([sys.executable, "write.py", kind, folder, f"worker{rank}"], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) for rank in range(2)]
    for process in processes:
        process.stdout.readline()
    time.sleep(1 - time.time() % 1)
    for process in processes:  # a second has begun
        process.stdin.write("\n")
        process.stdin.flush()
    opened = [process.stdout.readline() for process in processes]
    for process in processes:
        process.communicate("\n", timeout=120)
    return set(" ".join(opened).split())


def tags(kind):
    """Returns the number of files of two processes that open writers in the same second, and the tags in these files."""
    for folder in (f"{kind}{attempt}" for attempt in range(10)):
        if len(seconds(kind, folder)) == 1:
            events = EventAccumulator(folder)
            events.Reload()
            return len(glob.glob(folder + "/*")), events.Tags()["scalars"]
    print("skipped: this machine is too slow to open two files within a second")
    sys.exit(77)


files, found = tags("tensorboardX")
own_files, own_found = tags("tensorboard")
print(f"tensorboardX: {files} file with the tags {found}")
print(f"tensorboard: {own_files} files with the tags {sorted(own_found)}")
sys.exit(0 if (files, len(found), own_files, len(own_found)) == (1, 1, 2, 2) else 1)
PYTHON
venv/bin/python both.py
