#!/usr/bin/env bash
# safetensors writes the same tensors with the same metadata to different files: the keys of "__metadata__" come in another
# order each time, also within one process. So the workers of a data-parallel run that save equal weights have files of
# different SHA-256, a store that removes copies by content keeps all of them, and a hash of a checkpoint says nothing about
# whether a run was repeated exactly. Tensors have a fixed order (by type and name); with one key or none, files are equal.
#
# Seen: safetensors 0.8.0 with NumPy 2.4.6. Source: safetensors/src/tensor.rs, Metadata: the map of the user's metadata is a
# HashMap, whose order is random for each map. Issue 584 of safetensors names the order, the format prescribes none.
#
# Connects to nothing but the package registry. Exits 0 as seen, 1 if it has changed, 77 if the packages cannot be had.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv && venv/bin/pip install --quiet --disable-pip-version-check safetensors==0.8.0 numpy==2.4.6 ||
  { echo "skipped: the packages cannot be installed here"; exit 77; }
venv/bin/python - <<'PYTHON'
import hashlib
import sys

import numpy
from safetensors.numpy import save

tensors = {name: numpy.arange(4, dtype=numpy.float32) for name in ("fc.weight", "fc.bias", "conv.weight", "conv.bias")}
files = {}
for keys in (0, 1, 8):
    metadata = {f"key{number}": "value" for number in range(keys)} or None
    hashes = {hashlib.sha256(save(tensors, metadata)).hexdigest() for _ in range(20)}
    files[keys] = len(hashes)
    print(f"{keys} keys of metadata: the same state saved 20 times has {len(hashes)} SHA-256")
sys.exit(0 if files[0] == files[1] == 1 and files[8] > 1 else 1)
PYTHON
