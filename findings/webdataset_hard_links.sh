#!/usr/bin/env bash
# webdataset 1.0.2 loses samples whose files are hard links in a tar archive, without a word. GNU tar and Python's tarfile
# write the second and later names of a file as links to the first (POSIX ustar, typeflag 1), which happens whenever a data
# set was deduplicated. webdataset.tariterators.tar_file_iterator passes over everything that is not "isreg()", so the
# loop trains on fewer samples and ends with success.
#
# Seen with webdataset 1.0.2: of three samples, two of them with an image that is a link, one sample is whole and two come
# without their image. GNU tar 1.34 and Python's tarfile extract all three.
#
# Connects to nothing but the package registry. Exits 0 as seen, 1 if it has changed, 77 if the packages cannot be had.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv && venv/bin/pip install --quiet --disable-pip-version-check webdataset==1.0.2 ||
  { echo "skipped: webdataset 1.0.2 cannot be installed here"; exit 77; }
mkdir set
for sample in 0 1 2; do echo "$sample" >"set/$sample.cls"; done
echo picture >set/0.jpg
ln set/0.jpg set/1.jpg
ln set/0.jpg set/2.jpg
tar --sort=name -cf set.tar -C set .
tar -tvf set.tar | grep -c "link to" | sed 's/$/ hard links in the archive/'
venv/bin/python - <<'PYTHON'
import sys
import tarfile

import webdataset

with tarfile.open("set.tar") as tar:
    print("tarfile:", sorted(m.name for m in tar if tar.extractfile(m)))
samples = list(webdataset.WebDataset("set.tar", shardshuffle=False))
images = [sample["__key__"] for sample in samples if "jpg" in sample]
print("webdataset", webdataset.__version__, "samples:", len(samples), "with an image:", images)
sys.exit(0 if len(images) == 1 else 1)
PYTHON
