#!/usr/bin/env bash
# OpenCV 5.0.0.93 ignores the colour masks behind a BITMAPINFOHEADER: a BMP of BI_BITFIELDS with 32 bits a pixel is read as
# B, G, R, X whatever its masks say, without an error. ("BITMAPINFOHEADER structure", Microsoft: with BI_BITFIELDS three
# doublewords behind the header say where red, green and blue are.) It follows the masks of a BITMAPV4HEADER, where they are
# fields of the header.
#
# Seen with opencv-python-headless 5.0.0.93 beside Pillow 13.0.0, which gives the colours that the masks say: of X, B, G, R
# OpenCV makes (100, 50, 0) instead of (200, 100, 50). A network that was trained on such images sees other colours than
# its user.
#
# Connects to nothing but the package registry. Exits 0 as seen, 1 if it has changed, 77 if the packages cannot be had.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv && venv/bin/pip install --quiet --disable-pip-version-check pillow==13.0.0 \
  opencv-python-headless==5.0.0.93 || { echo "skipped: the packages cannot be installed here"; exit 77; }
venv/bin/python - <<'PYTHON'
import struct
import sys

import cv2
import numpy
import PIL.Image

RED, GREEN, BLUE = 200, 100, 50


def bmp(shifts):
    """A picture of 2 x 2 equal pixels, 32 bits each; `shifts` of red, green, blue."""
    pixel = sum(value << shift for value, shift in zip((RED, GREEN, BLUE), shifts))
    masks = struct.pack("<3I", *(0xFF << shift for shift in shifts))
    header = struct.pack("<IiiHHIIiiII", 40, 2, 2, 1, 32, 3, 16, 2835, 2835, 0, 0)
    data = struct.pack("<4I", *[pixel] * 4)
    offset = 14 + len(header) + len(masks)
    return b"BM" + struct.pack("<IHHI", offset + len(data), 0, 0, offset) + header + masks + data


seen = []
for name, shifts in (("BGRX", (16, 8, 0)), ("XBGR", (24, 16, 8)), ("BGXR", (24, 8, 0))):
    with open(name + ".bmp", "wb") as file:
        file.write(bmp(shifts))
    with PIL.Image.open(name + ".bmp") as image:
        pillow = image.convert("RGB").getpixel((0, 0))
    opencv = tuple(int(v) for v in cv2.imread(name + ".bmp")[0, 0, ::-1])
    print(f"{name}: Pillow {pillow}, OpenCV {opencv}")
    seen.append((pillow == (RED, GREEN, BLUE), opencv == (RED, GREEN, BLUE)))
sys.exit(0 if seen == [(True, True), (True, False), (True, False)] else 1)
PYTHON
