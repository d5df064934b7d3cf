#!/usr/bin/env bash
# OpenCV 5.0.0.93 follows the maximum of a PGM or PPM in one case of three. Of a binary file whose maximum is below 255 it
# gives the samples as they are: with a maximum of 31, white is (31, 31, 31), nearly black. The same pixels as text (P2, P3)
# are scaled. Of a maximum above 255 it takes the upper 8 of 16 bits in both forms: with 1023, white is (3, 3, 3). ppm(5) of
# Netpbm: each sample is a number between 0 and Maxval, the maximum colour value of the header.
#
# Seen with opencv-python-headless 5.0.0.93 beside Pillow 13.0.0, which scales all of them.
#
# Connects to nothing but the package registry. Exits 0 as seen, 1 if it has changed, 77 if the packages cannot be had.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv && venv/bin/pip install --quiet --disable-pip-version-check pillow==13.0.0 \
  opencv-python-headless==5.0.0.93 || { echo "skipped: the packages cannot be installed here"; exit 77; }
venv/bin/python - <<'PYTHON'
import io
import struct
import sys

import cv2
import numpy
import PIL.Image

seen = []
for most in (255, 31, 1023):
    white = struct.pack(">B" if most < 256 else ">H", most) * 3 * 4
    for form, data in (("text", f"P3 2 2 {most}\n".encode() + f"{most} ".encode() * 12),
                       ("binary", f"P6 2 2 {most}\n".encode() + white)):
        pillow = PIL.Image.open(io.BytesIO(data)).convert("RGB").getpixel((0, 0))
        opencv = tuple(int(v) for v in cv2.imdecode(numpy.frombuffer(data, numpy.uint8), cv2.IMREAD_COLOR)[0, 0, ::-1])
        print(f"maximum {most}, white as {form}: Pillow {pillow}, OpenCV {opencv}")
        seen.append((pillow == (255, 255, 255), opencv == (255, 255, 255)))
sys.exit(0 if seen == [(True, True), (True, True), (True, True), (True, False), (True, False), (True, False)] else 1)
PYTHON
