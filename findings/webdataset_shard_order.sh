#!/usr/bin/env bash
# WebDataset(urls, shardshuffle=N) of webdataset 1.0.2 reads the shards in one order in all epochs: the seed is drawn when the
# data set is made, and each epoch starts a new generator from it. With with_epoch(n) each epoch therefore ends at the same
# place: what follows the first n samples of that order is never read, however many epochs there are. The documentation of
# shardshuffle, seed and with_epoch says nothing of it, and .shuffle() of samples differs from epoch to epoch.
#
# Seen: webdataset 1.0.2: of 6 shards, 5 epochs of 4 samples read the same 4; 0.2.100 shuffles anew in each epoch. Source:
# compat.py, WebDataset.__init__ (self.seed) and filters.py, _shuffle. Pull request 502 of webdataset would restore it.
#
# Connects to nothing but the package registry. Exits 0 as seen, 1 if it has changed, 77 if the packages cannot be had.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for version in 0.2.100 1.0.2; do
  python3 -m venv "$version" && "$version/bin/pip" install --quiet --disable-pip-version-check "webdataset==$version" ||
    { echo "skipped: webdataset $version cannot be installed here"; exit 77; }
done
for shard in 0 1 2 3 4 5; do
  echo "$shard" >"$shard.cls"
  tar -cf "shard-$shard.tar" "$shard.cls"
done
cat >read.py <<'PYTHON'
import sys

import webdataset

whole = webdataset.WebDataset("shard-{0..5}.tar", shardshuffle=100)
orders = ["".join(sample["__key__"] for sample in whole) for _ in range(5)]
part = webdataset.WebDataset("shard-{0..5}.tar", shardshuffle=100).with_epoch(4)
parts = ["".join(sample["__key__"] for sample in part) for _ in range(5)]
print(f"webdataset {webdataset.__version__}: five epochs: {' '.join(orders)}; with_epoch(4): {' '.join(parts)}")
anew = len(set(orders)) > 1 and len(set(parts)) > 1
once = len(set(orders)) == 1 and len(set(parts)) == 1
sys.exit(0 if (anew if sys.argv[1] == "anew" else once) else 1)
PYTHON
0.2.100/bin/python read.py anew
1.0.2/bin/python read.py once
