#!/usr/bin/env bash
# torch.save into a file that cannot grow (a full disk, a quota, a limit of the file's size) raises no OSError. To a path
# and to an open file it raises RuntimeError "unexpected pos 576 vs 534", in the old format RuntimeError "write(): fd 3
# failed with ...". So `except OSError` and errno.ENOSPC, by which a training loop could wait for room, catch none of them,
# and the part that was written stays at the path. Into memory and on by file.write() the error is an OSError.
#
# Seen: torch 2.11.0 from PyPI; caffe2/serialize/inline_container.cc compares its position with the zip writer's. The limit
# of file sizes stands for the full disk here, because it needs no rights (Python ignores SIGXFSZ).
#
# Installs about 3 GB in a temporary folder. Exits 0 as seen, 1 if it has changed, 77 if the packages cannot be had.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv && venv/bin/pip install --quiet --disable-pip-version-check torch==2.11.0 ||
  { echo "skipped: torch 2.11.0 cannot be installed here"; exit 77; }

venv/bin/python - <<'PYTHON'
import io
import os
import resource
import sys

import torch

state = {"weights": torch.zeros(1 << 18)}
limit = 1 << 16


def to_path(path):
    torch.save(state, path)


def to_file(path):
    with open(path, "wb") as file:
        torch.save(state, file)


def in_old_format(path):
    torch.save(state, path, _use_new_zipfile_serialization=False)


def over_memory(path):
    memory = io.BytesIO()
    torch.save(state, memory)
    with open(path, "wb") as file:
        file.write(memory.getbuffer())


resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
as_seen = True
for save, kind, text in ((to_path, RuntimeError, "unexpected pos"), (to_file, RuntimeError, "unexpected pos"),
                         (in_old_format, RuntimeError, "write(): fd"), (over_memory, OSError, "")):
    try:
        save(save.__name__)
        found = None
    except (RuntimeError, OSError) as error:
        found = error
    print(f"{save.__name__}: {type(found).__name__}, errno {getattr(found, 'errno', None)}, "
          f"{os.path.getsize(save.__name__)} bytes stay: {found}")
    as_seen = as_seen and type(found) is kind and text in str(found) and os.path.getsize(save.__name__) > 0
sys.exit(0 if as_seen else 1)
PYTHON
