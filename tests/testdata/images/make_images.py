#!/usr/bin/env python3
"""Makes the files beside it: small pictures, and what Pillow (13.0 with libjpeg-turbo 3) makes of them. Needs Pillow alone.
The tests of datasets/images read them; `bilinear_*` are crops of photo.png resized with Pillow's BILINEAR, `*.rgb.png` what
Pillow decodes from the file of that name."""
import math
import os
import random
import struct
import zlib

from PIL import Image

HERE = os.path.dirname(os.path.abspath(__file__))
# name: (left, top, width, height) of the crop, (width, height) of the result
RESIZED = {
    "bilinear_half": ((0, 0, 61, 47), (30, 24)),
    "bilinear_tiny": ((0, 0, 61, 47), (7, 5)),
    "bilinear_one": ((0, 0, 61, 47), (1, 1)),
    "bilinear_larger": ((0, 0, 61, 47), (90, 71)),
    "bilinear_mixed": ((0, 0, 61, 47), (20, 60)),
    "bilinear_crop": ((13, 9, 33, 29), (16, 16)),
    "bilinear_enlarged_crop": ((20, 10, 9, 7), (24, 24)),
}


def photo(width, height):
    """Smooth shades, a sharp edge, a thin line and noise."""
    draw = random.Random(18)
    image = Image.new("RGB", (width, height))
    for y in range(height):
        for x in range(width):
            shade = [127 + 120 * math.sin(x / 7 + y / 11), 127 + 120 * math.cos(x / 5), 4 * y]
            if x + y > 70:
                shade = [255 - s / 2 for s in shade]
            if abs(x - y) < 1:
                shade = [255, 255, 0]
            image.putpixel((x, y), tuple(max(0, min(255, int(s + draw.uniform(-9, 9)))) for s in shade))
    return image


ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))


def write_png(path, image, bits, colours, interlaced, pixel):
    """What Pillow does not write. `pixel` turns (x, y) into the bytes of a pixel."""
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    raw = b""
    for left, top, columns, rows in ADAM7 if interlaced else ((0, 0, 1, 1),):
        for y in range(top, image.height, rows):
            line = b"".join(pixel(x, y) for x in range(left, image.width, columns))
            raw += b"\0" + line if line else b""
    head = struct.pack(">IIBBBBB", image.width, image.height, bits, colours, 0, 0, int(interlaced))
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(raw, 9)) + chunk(b"IEND", b""))


def main():
    def path(name):
        return os.path.join(HERE, name)

    image = photo(61, 47)
    image.save(path("photo.png"))
    for name, ((left, top, width, height), size) in RESIZED.items():
        crop = image.crop((left, top, left + width, top + height))
        crop.resize(size, Image.Resampling.BILINEAR).save(path(name + ".png"))
    jpegs = {
        "chroma_420.jpg": (image, {"quality": 80, "subsampling": "4:2:0"}),
        "chroma_444.jpg": (image, {"quality": 90, "subsampling": "4:4:4"}),
        "progressive.jpg": (image, {"quality": 75, "progressive": True}),
        "grey.jpg": (image.convert("L"), {"quality": 85}),
        "cmyk.jpg": (image.convert("CMYK"), {"quality": 90}),
    }
    for name, (picture, options) in jpegs.items():
        picture.save(path(name), **options)
        Image.open(path(name)).convert("RGB").save(path(name + ".rgb.png"))
    pngs = {
        "palette.png": image.quantize(16),
        "one_bit.png": image.convert("1"),
        "grey.png": image.convert("L"),
    }
    small = image.resize((19, 13))
    small.save(path("interlaced.png.rgb.png"))
    write_png(path("interlaced.png"), small, 8, 2, True, lambda x, y: bytes(small.getpixel((x, y))))
    # 16 bits with transparency; the lower 8 bits and the alpha channel are to be dropped.
    small.save(path("deep.png.rgb.png"))
    write_png(path("deep.png"), small, 16, 6, False,
              lambda x, y: b"".join(bytes((value, 255 * (x % 2))) for value in (*small.getpixel((x, y)), 7 * x)))
    for name, picture in pngs.items():
        picture.save(path(name))
        Image.open(path(name)).convert("RGB").save(path(name + ".rgb.png"))


if __name__ == "__main__":
    main()
