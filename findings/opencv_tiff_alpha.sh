#!/usr/bin/env bash
# cv2.imread of OpenCV 5.0.0.93 multiplies the colours of a TIFF by its alpha channel: a pixel (200, 100, 50) of opacity 128
# comes back as about (100, 50, 25), also with IMREAD_UNCHANGED, whose fourth channel is the alpha as it was. For a PNG with
# the same pixels it leaves the colours alone, as Pillow does for both. ExtraSamples 2 says that the colours are not
# multiplied ("unassociated alpha", TIFF 6.0, section 18); the product is meant to be laid over a background, which imread
# never does.
#
# Seen with opencv-python-headless 5.0.0.93 and files that Pillow 13.0.0 writes. A data set that mixes PNG and TIFF files of
# the same pictures therefore has two brightnesses.
#
# Connects to nothing but the package registry. Exits 0 as seen, 1 if it has changed, 77 if the packages cannot be had.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv && venv/bin/pip install --quiet --disable-pip-version-check pillow==13.0.0 \
  opencv-python-headless==5.0.0.93 || { echo "skipped: the packages cannot be installed here"; exit 77; }
venv/bin/python - <<'PYTHON'
import sys

import cv2
import PIL.Image

COLOUR = (200, 100, 50)
seen = {}
for name in ("alpha.png", "alpha.tif"):
    PIL.Image.new("RGBA", (4, 4), COLOUR + (128,)).save(name)
    with PIL.Image.open(name) as image:
        extra = image.tag_v2.get(338) if name.endswith("tif") else None
        pillow = image.convert("RGB").getpixel((0, 0))
    default, whole = cv2.imread(name), cv2.imread(name, cv2.IMREAD_UNCHANGED)
    seen[name] = tuple(int(v) for v in default[0, 0, ::-1])
    print(f"{name} (ExtraSamples {extra}): Pillow {pillow}, OpenCV {seen[name]},",
          "unchanged", tuple(int(v) for v in whole[0, 0]))
dimmed = all(abs(value - colour / 2) <= 2 for value, colour in zip(seen["alpha.tif"], COLOUR))
kept = tuple(int(v) for v in cv2.imread("alpha.tif", cv2.IMREAD_UNCHANGED)[0, 0, 2::-1])
sys.exit(0 if seen["alpha.png"] == COLOUR and dimmed and kept == seen["alpha.tif"] else 1)
PYTHON
