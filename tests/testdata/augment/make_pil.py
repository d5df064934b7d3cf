#!/usr/bin/env python3
"""Writes pil.json: an image and what Pillow's operations make of it, to compare RandAugment's with (needs pillow and numpy)."""
import json, sys

import numpy as np
from PIL import Image, ImageEnhance, ImageOps

pixels = (np.random.default_rng(0).random((12, 12, 3)) * 180 + 30).astype(np.uint8)
image = Image.fromarray(pixels)
more, less = 1 + 0.9 * 9 / 30, 1 - 0.9 * 9 / 30
results = {
    "brightness+": ImageEnhance.Brightness(image).enhance(more), "brightness-": ImageEnhance.Brightness(image).enhance(less),
    "color+": ImageEnhance.Color(image).enhance(more), "color-": ImageEnhance.Color(image).enhance(less),
    "contrast+": ImageEnhance.Contrast(image).enhance(more), "contrast-": ImageEnhance.Contrast(image).enhance(less),
    "sharpness+": ImageEnhance.Sharpness(image).enhance(more), "sharpness-": ImageEnhance.Sharpness(image).enhance(less),
    "posterize+": ImageOps.posterize(image, 7), "solarize+": ImageOps.solarize(image, 178.5),
    "autocontrast+": ImageOps.autocontrast(image), "equalize+": ImageOps.equalize(image),
}
as_list = lambda x: np.asarray(x).transpose(2, 0, 1).flatten().tolist()
json.dump({"magnitude": 9, "side": 12, "image": as_list(image), "results": {k: as_list(v) for k, v in results.items()}},
          open(sys.argv[1], "w"))
