#!/usr/bin/env bash
# PyTorch's batch norm changes running_mean and running_var in training without raising their version counters
# (Tensor._version), on a CPU. num_batches_tracked, which is counted in Python, is raised; so are the statistics of
# InstanceNorm with track_running_stats, which are copied. A program that looks at _version to learn whether a buffer has
# changed since it was saved, sent or hashed (as autograd does for saved tensors) keeps stale statistics.
#
# Seen: torch 2.11.0 from PyPI. Operator: aten::native_batch_norm, whose schema does not mark running_mean as written to.
#
# Installs about 3 GB in a temporary folder. Exits 0 as seen, 1 if it has changed, 77 if the packages cannot be had.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv && venv/bin/pip install --quiet --disable-pip-version-check torch==2.11.0 ||
  { echo "skipped: torch 2.11.0 cannot be installed here"; exit 77; }

venv/bin/python - <<'PYTHON'
import sys

import torch

changed_silently, raised = [], []
for name, module in (("BatchNorm1d", torch.nn.BatchNorm1d(3)), ("BatchNorm2d", torch.nn.BatchNorm2d(3)),
                     ("InstanceNorm2d", torch.nn.InstanceNorm2d(3, track_running_stats=True))):
    before = {key: (value.clone(), value._version) for key, value in module.named_buffers()}
    module(torch.randn((4, 3) if name.endswith("1d") else (4, 3, 5, 5)))
    for key, value in module.named_buffers():
        differs, newer = not torch.equal(value, before[key][0]), value._version > before[key][1]
        print(f"{name}.{key}: changed {differs}, version raised {newer}")
        if differs:
            (raised if newer else changed_silently).append(f"{name}.{key}")
as_seen = sorted(changed_silently) == [f"BatchNorm{n}d.running_{what}" for n in (1, 2) for what in ("mean", "var")]
sys.exit(0 if as_seen and "InstanceNorm2d.running_mean" in raised else 1)
PYTHON
