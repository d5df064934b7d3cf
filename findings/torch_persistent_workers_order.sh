#!/usr/bin/env bash
# DataLoader(persistent_workers=True) changes the order in which samples come, from the second epoch on: the same seed, data
# set and sampler give other permutations than without it. A new iterator draws a seed for its workers from the generator that
# shuffles; an iterator that is reset draws none. So a switch that is meant to save the start of processes changes the
# trained weights, and a run that was interrupted after an epoch cannot go on in the same order by restoring the generator
# alone: its first iterator draws once more than the one that it replaces.
#
# Seen: torch 2.11.0 from PyPI. Source: torch/utils/data/dataloader.py: _BaseDataLoaderIter.__init__ draws _base_seed, _reset
# does not. The documentation of persistent_workers names the life of the processes only.
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
from torch.utils.data import DataLoader


def loader(generator, persistent):
    return DataLoader(range(8), batch_size=None, shuffle=True, num_workers=1, persistent_workers=persistent,
                      generator=generator)


def epochs(persistent, number):
    """Returns the order of each epoch."""
    data = loader(torch.Generator().manual_seed(0), persistent)
    return [[int(sample) for sample in data] for _ in range(number)]


def resumed(persistent):
    """Returns the order of the second epoch in a new loader, whose generator has the state that followed the first."""
    generator = torch.Generator().manual_seed(0)
    first = loader(generator, persistent)
    list(first)
    restored = torch.Generator()
    restored.set_state(generator.get_state())
    return [int(sample) for sample in loader(restored, persistent)]


default, persistent = epochs(False, 2), epochs(True, 2)
for name, orders in (("new workers", default), ("persistent workers", persistent)):
    for number, order in enumerate(orders, start=1):
        print(f"{name}, epoch {number}: {order}")
again = {flag: resumed(flag) for flag in (False, True)}
for flag, order in again.items():
    print(f"{'persistent' if flag else 'new'} workers, epoch 2 after a restart: {order}")
as_seen = default[0] == persistent[0] and default[1] != persistent[1]
sys.exit(0 if as_seen and again[False] == default[1] and again[True] != persistent[1] else 1)
PYTHON
