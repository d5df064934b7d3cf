#!/usr/bin/env bash
# PyTorch's OneCycleLR cannot be made if the learning rate rises over exactly one step: with total_steps * pct_start == 1, such
# as 10 steps and 0.1, the constructor divides by zero ("float division by zero", without a word of its arguments). Its end of
# the first phase is total_steps * pct_start - 1, so the phase has the length 0. A phase of two steps, or of a part of one (10
# steps and 0.05), is accepted. Short runs meet it: a smoke test of two epochs of five steps with the usual pct_start=0.1.
#
# Seen: torch 2.15.0 and 2.11.0 from PyPI. Source: torch/optim/lr_scheduler.py, OneCycleLR.__init__ (end_step) and get_lr.
#
# Installs about 3 GB in a temporary folder. Exits 0 as seen, 1 if it has changed, 77 if the packages cannot be had.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv && venv/bin/pip install --quiet --disable-pip-version-check torch==2.15.0 ||
  { echo "skipped: torch 2.15.0 cannot be installed here"; exit 77; }

venv/bin/python - <<'PYTHON'
import sys

import torch


def made(steps, share):
    """Returns how the constructor ends."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    try:
        torch.optim.lr_scheduler.OneCycleLR(optimizer, 1.0, total_steps=steps, pct_start=share)
    except ZeroDivisionError as error:
        return f"ZeroDivisionError: {error}"
    return "made"


ends = {case: made(*case) for case in ((10, 0.1), (4, 0.25), (100, 0.01), (10, 0.05), (20, 0.1), (10, 0.3))}
for (steps, share), end in ends.items():
    print(f"{steps} steps, of which {share:g} rise: {end}")
as_seen = all((end != "made") == (steps * share == 1) for (steps, share), end in ends.items())
sys.exit(0 if as_seen else 1)
PYTHON
