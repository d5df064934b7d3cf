#!/usr/bin/env bash
# Pillow 13.0.0 cannot open a big-endian BigTIFF ("cannot identify image file"), although its TIFF plugin lists the prefix
# "MM\0+" of such files and opens the same picture in little-endian order. The version number of a BigTIFF is 43 in the
# file's own byte order (BigTIFF specification, header: bytes 2 and 3), so a big-endian file has it in byte 3; Pillow looks
# at byte 2 alone.
#
# Seen with Pillow 13.0.0 and files that tifffile 2026.3.3 writes and reads again: classic TIFF opens in both orders, BigTIFF
# in little-endian order only. OpenCV 5.0.0.93 reads all four. A program that passes over files that Pillow does not know
# loses such images without a word.
#
# Connects to nothing but the package registry. Exits 0 as seen, 1 if it has changed, 77 if the packages cannot be had.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv && venv/bin/pip install --quiet --disable-pip-version-check pillow==13.0.0 tifffile==2026.3.3 \
  opencv-python-headless==5.0.0.93 || { echo "skipped: the packages cannot be installed here"; exit 77; }
venv/bin/python - <<'PYTHON'
import sys

import cv2
import numpy
import PIL.Image
import tifffile

picture = numpy.arange(6 * 4 * 3, dtype=numpy.uint8).reshape(6, 4, 3)
seen = {}
for big in (False, True):
    for order in "<>":
        name = f"{'big' if big else 'classic'}{'-le' if order == '<' else '-be'}.tif"
        tifffile.imwrite(name, picture, bigtiff=big, byteorder=order, photometric="rgb")
        assert (tifffile.imread(name) == picture).all()
        opencv = cv2.imread(name)
        try:
            with PIL.Image.open(name) as image:
                said = "same" if (numpy.asarray(image) == picture).all() else "other pixels"
        except PIL.UnidentifiedImageError:
            said = "cannot identify image file"
        seen[name] = said
        print(f"{name}: Pillow {PIL.__version__}: {said}; OpenCV {cv2.__version__}:",
              "same" if opencv is not None and (opencv[..., ::-1] == picture).all() else "not the same")
expected = {"classic-le.tif": "same", "classic-be.tif": "same", "big-le.tif": "same",
            "big-be.tif": "cannot identify image file"}
sys.exit(0 if seen == expected else 1)
PYTHON
