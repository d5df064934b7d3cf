#!/usr/bin/env python3
"""Writes a file of every kind of image that the world has, and what it shows: make_kinds.py FOLDER. Needs Pillow alone.

FOLDER gets NAME.EXT (the file), NAME.expected.png (its pixels, stored as they are: not turned) and kinds.json, a list of
{"name", "file", "kind", "expected" or null, "refused" or null, "pillow"}. `kind` is the row of docs/images.md. The pixels are
Pillow's, but for kinds that Pillow does not read or reads otherwise; `pillow` says which: "same", "other" or "refused".
turned.json is such a list of files with an orientation, whose expected pixels are turned."""
import io
import json
import os
import struct
import sys
import zlib

from PIL import Image, ImageOps
from writers import (HEIGHT, WIDTH, bmp, bmp_rows, chunk, exif, image_of, in_tiles, masked, packed, photo, pixels, plain, rgb,
                     saved, segment, shorts, stray, tiff, webp_with, without_marker, xmp)

KINDS, TURNED = [], []
FOLDER = ""


def add(name, extension, kind, data, expected=None, refused=None):
    """Adds a kind: read as Pillow reads it, or as `expected` (an RGB image), or refused with these words."""
    with open(os.path.join(FOLDER, f"{name}.{extension}"), "wb") as file:
        file.write(data)
    try:
        with Image.open(io.BytesIO(data)) as image:
            theirs = rgb(image)
    except Exception:
        theirs = None
    row = {"name": name, "file": f"{name}.{extension}", "kind": kind, "expected": None, "refused": refused}
    if refused is None:
        ours = expected or theirs
        assert ours is not None, f"Pillow does not read {name}"
        row["expected"] = f"{name}.expected.png"
        ours.save(os.path.join(FOLDER, row["expected"]))
        same = theirs is not None and theirs.tobytes() == ours.tobytes()
        row["pillow"] = "refused" if theirs is None else "same" if same else "other"
    else:
        row["pillow"] = "refused" if theirs is None else "other"
    KINDS.append(row)


# ---- BMP


def bitmaps():
    image = photo()
    add("bmp24", "bmp", "BMP of 24 bits", saved(image, "BMP"))
    flipped = saved(image.transpose(Image.Transpose.FLIP_TOP_BOTTOM), "BMP")
    add("bmp24_top_down", "bmp", "BMP of 24 bits", flipped[:22] + struct.pack("<i", -HEIGHT) + flipped[26:])
    add("bmp24_os2", "bmp", "BMP of 24 bits", bmp(24, bmp_rows(lambda x, y: int.from_bytes(bytes(image.getpixel((x, y))), "big"), 3), 12))
    add("bmp24_v5", "bmp", "BMP of 24 bits", bmp(24, bmp_rows(lambda x, y: int.from_bytes(bytes(image.getpixel((x, y))), "big"), 3), 124))
    add("bmp32", "bmp", "BMP of 32 bits", bmp(32, bmp_rows(lambda x, y: int.from_bytes(bytes(image.getpixel((x, y))), "big"), 4)))

    def rows(count):
        return lambda number: bmp_rows(number, count)

    for name, kind, bits, header, masks in (
            ("bmp32_bgra", "BMP of 32 bits with masks", 32, 108, (0xFF0000, 0xFF00, 0xFF, 0xFF000000)),
            ("bmp32_rgba", "BMP of 32 bits with masks", 32, 108, (0xFF, 0xFF00, 0xFF0000, 0xFF000000)),
            ("bmp32_xbgr", "BMP of 32 bits with masks", 32, 40, (0xFF000000, 0xFF0000, 0xFF00)),
            ("bmp32_abgr", "BMP of 32 bits with masks", 32, 56, (0xFF000000, 0xFF0000, 0xFF00, 0xFF)),
            ("bmp32_gbr", "BMP of 32 bits with other masks", 32, 40, (0xFF00, 0xFF000000, 0xFF)),
            ("bmp32_10", "BMP of 32 bits with other masks", 32, 40, (0x3FF00000, 0xFFC00, 0x3FF)),
            ("bmp16", "BMP of 16 bits", 16, 40, (0x7C00, 0x3E0, 0x1F)),
            ("bmp16_555", "BMP of 16 bits", 16, 40, (0x7C00, 0x3E0, 0x1F)),
            ("bmp16_565", "BMP of 16 bits", 16, 40, (0xF800, 0x7E0, 0x1F)),
            ("bmp16_565_v4", "BMP of 16 bits", 16, 108, (0xF800, 0x7E0, 0x1F)),
            ("bmp16_444", "BMP of 16 bits with other masks", 16, 40, (0xF00, 0xF0, 0xF)),
            ("bmp16_bgr", "BMP of 16 bits with other masks", 16, 40, (0x1F, 0x7E0, 0xF800))):
        data, expected = masked(masks[:3], rows(bits // 8))
        plain = name == "bmp16"
        add(name, "bmp", kind, bmp(bits, data, header, 0 if plain else 3, () if plain else masks), expected)
    for bits in (1, 2, 4, 8):
        colours = [(7 * i % 256, 255 - i * 11 % 256, i * 31 % 256) for i in range(min(200, 1 << bits))]
        index = [(x // 3 + y) % len(colours) for y in range(HEIGHT) for x in range(WIDTH)]
        bottom_up = [index[y * WIDTH + x] for y in reversed(range(HEIGHT)) for x in range(WIDTH)]
        expected = image_of(lambda x, y: colours[index[y * WIDTH + x]])
        add(f"bmp{bits}", "bmp", "BMP with a palette of 2 bits" if bits == 2 else "BMP with a palette", bmp(bits, packed(bottom_up, bits, WIDTH, 4), palette=colours), expected)
        if bits == 8:
            whole = colours + [(0, 0, 0)] * (256 - len(colours))
            add("bmp8_os2", "bmp", "BMP with a palette", bmp(8, packed(bottom_up, 8, WIDTH, 4), 12, palette=whole), expected)
            add("bmp8_os2v2", "bmp", "BMP with a palette", bmp(8, packed(bottom_up, 8, WIDTH, 4), 64, palette=colours), expected)
        if bits in (4, 8):
            runs = b""
            for at in range(0, len(bottom_up), WIDTH):
                row = bottom_up[at:at + WIDTH]
                x = 0
                while x < WIDTH:
                    end = x
                    while end < WIDTH and row[end] == row[x]:
                        end += 1
                    if x % 2 == 0 and x + 5 <= WIDTH:  # five pixels as they are
                        runs += bytes((0, 5)) + packed(row[x:x + 5], bits, 5, 2)
                        x += 5
                    else:
                        runs += bytes((end - x, row[x] if bits == 8 else row[x] * 17))
                        x = end
                runs += b"\0\0"
            add(f"bmp{bits}_rle", "bmp", "BMP of RLE4 or RLE8", bmp(bits, runs + b"\0\1", coding=1 if bits == 8 else 2, palette=colours), expected)
            gap = b"\x03\x01\0\2\2\1\x02\x01\0\1"  # three pixels, over two and up one, two pixels, the end
            hit = {(x, HEIGHT - 1) for x in range(3)} | {(x, HEIGHT - 2) for x in (5, 6)}
            if bits == 8:
                add("bmp8_rle_gaps", "bmp", "BMP of RLE8 that ends early", bmp(8, gap, coding=1, palette=colours),
                    image_of(lambda x, y: colours[1 if (x, y) in hit else 0]))
    add("bmp_jpeg", "bmp", "BMP with a JPEG or PNG inside", bmp(0, saved(image, "JPEG"), coding=4), refused="a BMP with a JPEG inside is not taken: convert it")
    add("bmp_png", "bmp", "BMP with a JPEG or PNG inside", bmp(0, saved(image, "PNG"), coding=5), refused="a BMP with a PNG inside is not taken: convert it")
    add("bmp64", "bmp", "BMP of 64 bits", bmp(64, b"\0" * 8 * WIDTH * HEIGHT), refused="a BMP of 64 bits a pixel is not taken: convert it")
    add("bmp_huffman", "bmp", "BMP of OS/2 with Huffman coding or RLE24", bmp(1, b"\0" * 100, 64, 3), refused="a BMP with Huffman coding is not taken: convert it")
    add("bmp_rle24", "bmp", "BMP of OS/2 with Huffman coding or RLE24", bmp(24, b"\0" * 100, 64, 4), refused="a BMP of RLE24 is not taken: convert it")


# ---- TIFF


def tiffs():
    image, clear, grey = photo(), photo("RGBA"), photo("L")
    flat = image.tobytes()
    for coding in ("raw", "tiff_lzw", "tiff_adobe_deflate", "packbits"):
        add(f"tiff_{coding}", "tiff", "TIFF of RGB", saved(image, "TIFF", compression=coding))
    add("tiff_zstd", "tiff", "TIFF of Zstandard, LZMA or WebP coding", saved(image, "TIFF", compression="zstd"))
    add("tiff_jpeg", "tiff", "TIFF of JPEG data", saved(image, "TIFF", compression="jpeg", quality=90))
    add("tiff_jpeg_grey", "tiff", "TIFF of JPEG data", saved(grey, "TIFF", compression="jpeg", quality=90))
    add("tiff_big_endian", "tiff", "TIFF of RGB", tiff(plain(8, 3, 2), [flat], ">"))
    # Tags without a type or with one that libtiff does not know: real files have both.
    add("tiff_tag_without_type", "tiff", "TIFF of RGB", tiff(plain(8, 3, 2, t0=(0, (0,)), t65000=(0, (5,))), [flat]))
    strips = [flat[3 * WIDTH * y:3 * WIDTH * min(HEIGHT, y + 5)] for y in range(0, HEIGHT, 5)]
    add("tiff_strips", "tiff", "TIFF of RGB", tiff(plain(8, 3, 2, t278=(4, (5,))), strips))
    add("tiff_planes", "tiff", "TIFF of RGB in planes", tiff(plain(8, 3, 2, t284=shorts(2)), [flat[c::3] for c in range(3)]), image)
    add("tiff_big", "tiff", "BigTIFF", tiff(plain(8, 3, 2), [flat], big=True))
    add("tiff_big_mm", "tiff", "BigTIFF, big-endian", tiff(plain(8, 3, 2), [flat], ">", big=True), image)
    for side in (16, 32, 64):
        add(f"tiff_tiles{side}", "tiff", "TIFF of RGB in tiles", tiff(plain(8, 3, 2), in_tiles(flat, side), tiles=side), image)
    add("tiff_tiles_planes", "tiff", "TIFF of RGB in tiles", tiff(plain(8, 3, 2, t284=shorts(2)), [t for c in range(3) for t in in_tiles(flat[c::3], 16)], tiles=16), image)
    add("tiff_pages", "tiff", "TIFF of several pages: the first", saved(image, "TIFF", save_all=True, append_images=[grey.convert("RGB")]), image)
    # Alpha of every meaning.
    add("tiff_alpha", "tiff", "TIFF with alpha", saved(clear, "TIFF"))
    add("tiff_alpha_lzw", "tiff", "TIFF with alpha", saved(clear, "TIFF", compression="tiff_lzw"))
    for meaning, name in ((0, "unknown"), (1, "multiplied"), (2, "plain")):
        add(f"tiff_extra_{name}", "tiff", "TIFF with alpha", tiff(plain(8, 4, 2, t338=shorts(meaning)), [clear.tobytes()]))
    add("tiff_extra_none", "tiff", "TIFF with alpha", tiff(plain(8, 4, 2), [clear.tobytes()]))
    add("tiff_extra_two", "tiff", "TIFF with alpha", tiff(plain(8, 5, 2, t338=shorts(0, 0)), [b"".join(bytes(p) + b"\7" for p in pixels(clear))]))
    wide = b"".join(struct.pack("<4H", *(v * 257 ^ 0x55 for v in p)) for p in pixels(clear))
    add("tiff_alpha16", "tiff", "TIFF with alpha", tiff(plain(16, 4, 2, t338=shorts(2)), [wide]))
    add("tiff_alpha16_multiplied", "tiff", "TIFF with alpha", tiff(plain(16, 4, 2, t338=shorts(1)), [wide]))
    add("tiff_grey_alpha", "tiff", "TIFF with alpha", saved(clear.convert("LA"), "TIFF"))
    # Grey and palettes.
    add("tiff_grey", "tiff", "TIFF of grey, 1, 2, 4 or 8 bits", saved(grey, "TIFF"))
    add("tiff_grey_white0", "tiff", "TIFF of grey, 1, 2, 4 or 8 bits", tiff(plain(8, 1, 0), [grey.tobytes()]))
    for bits in (1, 2, 4):
        values = [v >> 8 - bits for v in grey.tobytes()]
        for white in (0, 1):
            add(f"tiff_grey{bits}_{'white0' if white == 0 else 'black0'}", "tiff", "TIFF of grey, 1, 2, 4 or 8 bits", tiff(plain(bits, 1, white), [packed(values, bits, WIDTH)]))
    bilevel = grey.point(lambda v: 255 * (v > 120)).convert("1")
    for coding in ("group3", "group4"):
        add(f"tiff_{coding}", "tiff", "TIFF of a fax", saved(bilevel, "TIFF", compression=coding))
    for bits in (1, 2, 4, 8):
        count = 1 << bits
        colours = [(7 * i % 256, 255 - i * 11 % 256, i * 31 % 256) for i in range(count)]
        table = tuple(colours[i][c] * 257 for c in range(3) for i in range(count))
        values = [(x // 3 + y) % count for y in range(HEIGHT) for x in range(WIDTH)]
        add(f"tiff_palette{bits}", "tiff", "TIFF with a palette of 1, 2, 4 or 8 bits", tiff(plain(bits, 1, 3, t320=shorts(*table)), [packed(values, bits, WIDTH)]))
    # 16 bits, inks, YCbCr.
    for order in "<>":
        deep = struct.pack(f"{order}{WIDTH * HEIGHT}H", *(v * 256 + 200 for v in grey.tobytes()))
        add(f"tiff_grey16_{'little' if order == '<' else 'big'}", "tiff", "TIFF of grey, 16 bits", tiff(plain(16, 1, 1), [deep], order))
        deep = struct.pack(f"{order}{3 * WIDTH * HEIGHT}H", *(v * 256 + 200 for v in flat))
        add(f"tiff_rgb16_{'little' if order == '<' else 'big'}", "tiff", "TIFF of RGB, 16 bits", tiff(plain(16, 3, 2), [deep], order))
    inks = image.convert("CMYK")
    add("tiff_cmyk", "tiff", "TIFF of CMYK", saved(inks, "TIFF"))
    add("tiff_cmyk_extra", "tiff", "TIFF of CMYK", tiff(plain(8, 5, 5, t338=shorts(0)), [b"".join(bytes(p) + b"\7" for p in pixels(inks))]))
    add("tiff_cmyk16", "tiff", "TIFF of CMYK", tiff(plain(16, 4, 5), [struct.pack(f"<{4 * WIDTH * HEIGHT}H", *(v * 256 + 99 for v in inks.tobytes()))]))
    add("tiff_ycbcr", "tiff", "TIFF of YCbCr", tiff(plain(8, 3, 6, t530=shorts(1, 1)) | {259: shorts(8)}, [zlib.compress(image.convert("YCbCr").tobytes())]))
    # Kinds that are refused.
    size = WIDTH * HEIGHT
    for name, tags, count, words in (
            ("12bit", plain(12, 1, 1), 2 * size, "of 12 bits a sample"),
            ("32bit", plain(32, 1, 1), 4 * size, "of 32 bits a sample"),
            ("white16", plain(16, 1, 0), 2 * size, "of 16 bits a sample in which 0 is white"),
            ("float", plain(32, 1, 1, t339=shorts(3)), 4 * size, "of floating-point samples (32 bits)"),
            ("float64", plain(64, 3, 2, t339=shorts(3, 3, 3)), 24 * size, "of floating-point samples (64 bits)"),
            ("signed", plain(16, 1, 1, t339=shorts(2)), 2 * size, "of signed or complex samples"),
            ("palette16", plain(16, 1, 3, t320=shorts(*[0] * 3 * 65536)), 2 * size, "with a palette of 16 bits"),
            ("lab", plain(8, 3, 8), 3 * size, "of photometric interpretation 8"),
            ("many", plain(8, 12, 2, t338=shorts(*[0] * 9)), 12 * size, "of 12 samples of 8 bits a pixel"),
            ("old_jpeg", plain(8, 3, 6) | {259: shorts(6)}, 3 * size, "of JPEG data in the old style"),
            ("coding", plain(8, 3, 2) | {259: shorts(60000)}, 3 * size, "of compression 60000")):
        kind = {"12bit": "TIFF of 12 or 32 bits", "32bit": "TIFF of 12 or 32 bits", "float": "TIFF of floating-point samples",
                "float64": "TIFF of floating-point samples"}.get(name, "TIFF of other kinds")
        add(f"tiff_{name}", "tiff", kind, tiff(tags, [b"\x11" * count]), refused=f"a TIFF {words} is not taken: convert it")


# ---- WebP, JPEG, PNG, others


def webps():
    image, clear = photo(), photo("RGBA")
    add("webp_lossy", "webp", "WebP", saved(image, "WEBP", quality=90))
    add("webp_lossless", "webp", "WebP", saved(image, "WEBP", lossless=True))
    add("webp_alpha", "webp", "WebP with alpha", saved(clear, "WEBP", quality=90, exact=True))
    add("webp_alpha_lossless", "webp", "WebP with alpha", saved(clear, "WEBP", lossless=True, exact=True))
    frames = [photo("RGBA").rotate(180)]
    add("webp_animated", "webp", "animated WebP: the first frame", saved(clear, "WEBP", save_all=True, append_images=frames, lossless=True, exact=True))


def jpegs():
    image = photo()
    for name, how in (("444", {"subsampling": 0}), ("422", {"subsampling": 1}), ("420", {"subsampling": 2}), ("progressive", {"progressive": True})):
        add(f"jpeg_{name}", "jpg", "JPEG", saved(image, "JPEG", quality=90, **how))
    add("jpeg_grey", "jpg", "JPEG", saved(image.convert("L"), "JPEG", quality=90))
    inks = saved(image.convert("CMYK"), "JPEG", quality=90)
    add("jpeg_cmyk", "jpg", "JPEG of CMYK with Adobe's marker", inks)
    add("jpeg_cmyk_plain", "jpg", "JPEG of CMYK without a marker", without_marker(inks, 0xEE))
    plain_file = saved(image, "JPEG", quality=90)
    add("jpeg_stray", "jpg", "JPEG with stray bytes between segments", stray(plain_file, 0xC0, b"\0\0stray"))
    add("jpeg_stray_fill", "jpg", "JPEG with stray bytes between segments", stray(plain_file, 0xC4, b"\xff\xff\xff"))


def pngs():
    image, clear, grey = photo(), photo("RGBA"), photo("L")
    add("png_rgb", "png", "PNG", saved(image, "PNG"))
    add("png_rgba", "png", "PNG with alpha", saved(clear, "PNG"))
    add("png_grey", "png", "PNG", saved(grey, "PNG"))
    add("png_grey_alpha", "png", "PNG with alpha", saved(clear.convert("LA"), "PNG"))
    add("png_palette", "png", "PNG", saved(image.quantize(60), "PNG"))
    add("png_palette_clear", "png", "PNG with alpha", saved(image.quantize(60), "PNG", transparency=3))
    add("png_bits", "png", "PNG", saved(grey.point(lambda v: 255 * (v > 120)).convert("1"), "PNG"))
    deep = Image.frombytes("I;16", grey.size, b"".join(struct.pack("<H", v * 256 + 200) for v in grey.tobytes()))
    add("png_grey16", "png", "PNG of grey, 16 bits", saved(deep, "PNG"))


def netpbm(number, samples, most=1, width=WIDTH, comment=""):
    """Returns a file "P<number>" of samples up to `most`, row by row; most is None for PBM."""
    head = f"P{number}\n{comment}{width} {HEIGHT}\n" + ("" if most is None else f"{most}\n")
    if number < 4:
        rows = [samples[at:at + len(samples) // HEIGHT] for at in range(0, len(samples), len(samples) // HEIGHT)]
        return (head + "\n".join(("" if most is None else " ").join(map(str, row)) for row in rows) + "\n").encode()
    if most is None:
        return head.encode() + packed(samples, 1, width)
    return head.encode() + b"".join(struct.pack(">H" if most > 255 else ">B", v) for v in samples)


def netpbms():
    image, grey = photo().tobytes(), photo("L").tobytes()
    bits = [int(v < 120) for v in grey]
    for plain_text in (True, False):
        name = "plain" if plain_text else "binary"
        pbm, pgm, ppm = (1, 2, 3) if plain_text else (4, 5, 6)
        add(f"pbm_{name}", "pbm", "PBM, PGM or PPM, as text or in binary", netpbm(pbm, bits, None, comment="# of a test\n"))
        add(f"pgm_{name}", "pgm", "PBM, PGM or PPM, as text or in binary", netpbm(pgm, grey, 255, comment="#\n# of a test\n"))
        add(f"ppm_{name}", "ppm", "PBM, PGM or PPM, as text or in binary", netpbm(ppm, image, 255))
        for most in (1, 2, 6, 31, 200, 256, 1000, 65535):
            add(f"ppm_{name}_{most}", "ppm", "PGM or PPM of another maximum", netpbm(ppm, [v * most // 255 for v in image], most))
        for most in (3, 100, 254):
            add(f"pgm_{name}_{most}", "pgm", "PGM or PPM of another maximum", netpbm(pgm, [v * most // 255 for v in grey], most))
        for most in (1023, 65535):
            add(f"pgm_{name}_{most}", "pgm", "PGM of 9 to 16 bits", netpbm(pgm, [v * most // 255 for v in grey], most))
    add("ppm_two", "ppm", "PBM, PGM or PPM, as text or in binary", 2 * netpbm(6, image, 255))


def others():
    image = photo()
    for name, kind, data in (
            ("ico", "an ICO", saved(image, "ICO")), ("jp2", "a JPEG 2000", saved(image, "JPEG2000")), ("dds", "a DDS", saved(image, "DDS")),
            ("tga", "a TGA", saved(image, "TGA")), ("qoi", "a QOI", saved(image, "QOI")), ("pdf", "a PDF", saved(image, "PDF")),
            ("psd", "a Photoshop", b"8BPS\0\1" + b"\0" * 40), ("svg", "an SVG", b"<svg xmlns='http://www.w3.org/2000/svg'/>\n"),
            ("exr", "an OpenEXR", b"\x76\x2f\x31\x01" + b"\0" * 40), ("pfm", "a PFM", b"Pf\n2 2\n-1.0\n" + b"\0" * 16),
            ("pam", "a PAM", b"P7\nWIDTH 1\nHEIGHT 1\nDEPTH 1\nMAXVAL 255\nENDHDR\n\0"), ("jxl", "a JPEG XL", b"\xff\x0a" + b"\0" * 40)):
        add(name, name, "ICO, TGA, JPEG 2000 or XL, PSD, EXR, DDS, QOI, PDF, SVG, PFM, PAM", data, refused=f"{kind} file, which is not supported; convert it to JPEG or PNG")
    add("gif", "gif", "GIF, HEIC, AVIF", saved(image, "GIF"), refused="a GIF file, which is not supported; convert it to JPEG or PNG")
    add("avif", "avif", "GIF, HEIC, AVIF", b"\0\0\0\x1cftypavif\0\0\0\0avifmif1miaf" + b"\0" * 40, refused="a HEIC or AVIF file, which is not supported; convert it to JPEG or PNG")


# ---- Orientation


TURNS = {2: "FLIP_LEFT_RIGHT", 3: "ROTATE_180", 4: "FLIP_TOP_BOTTOM", 5: "TRANSPOSE", 6: "ROTATE_270", 7: "TRANSVERSE", 8: "ROTATE_90"}


def turned(name, extension, kind, data, orientation, flat):
    """Adds a file that says that its pixels, those of the image `flat`, have this orientation."""
    with open(os.path.join(FOLDER, f"{name}.{extension}"), "wb") as file:
        file.write(data)
    stored = Image.open(io.BytesIO(data))
    theirs = rgb(ImageOps.exif_transpose(stored))
    ours = flat.transpose(getattr(Image.Transpose, TURNS[orientation])) if orientation in TURNS else flat
    ours.save(os.path.join(FOLDER, f"{name}.expected.png"))
    TURNED.append({"name": name, "file": f"{name}.{extension}", "kind": kind, "expected": f"{name}.expected.png", "orientation": orientation,
                   "pillow": "turned" if theirs.size == ours.size and theirs.tobytes() == ours.tobytes() else "stored"})


def orientations():
    image = photo()
    jpeg, png, webp = saved(image, "JPEG", quality=90), saved(image, "PNG"), saved(image, "WEBP", lossless=True)
    flat_jpeg = Image.open(io.BytesIO(jpeg)).convert("RGB")
    for i in (1, 2, 3, 4, 5, 6, 7, 8):
        app1 = segment(0xE1, b"Exif\0\0" + exif(i))
        turned(f"turned_jpeg{i}", "jpg", "JPEG: EXIF", jpeg[:2] + app1 + jpeg[2:], i, flat_jpeg)
        turned(f"turned_png{i}", "png", "PNG: eXIf", png[:33] + chunk(b"eXIf", exif(i)) + png[33:], i, image)
        turned(f"turned_webp{i}", "webp", "WebP: EXIF", webp_with(webp, b"EXIF", exif(i), 8), i, image)
        turned(f"turned_tiff{i}", "tiff", "TIFF: tag 274", tiff(plain(8, 3, 2, t274=shorts(i)), [image.tobytes()]), i, image)
    for i in (3, 6):
        app1 = segment(0xE1, b"Exif\0\0" + exif(i))
        turned(f"turned_fill{i}", "jpg", "JPEG: fill bytes before EXIF", jpeg[:2] + b"\xff\xff\xff" + app1 + jpeg[2:], i, flat_jpeg)
        turned(f"turned_long{i}", "jpg", "JPEG: EXIF with a tag of type LONG", jpeg[:2] + segment(0xE1, b"Exif\0\0" + exif(i, 4)) + jpeg[2:], i, flat_jpeg)
        turned(f"turned_xmp{i}", "jpg", "JPEG: XMP alone", jpeg[:2] + segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0" + xmp(i)) + jpeg[2:], i, flat_jpeg)
        turned(f"turned_webp_xmp{i}", "webp", "WebP: XMP alone", webp_with(webp, b"XMP ", xmp(i), 4), i, image)
        turned(f"turned_png_xmp{i}", "png", "PNG: XMP alone", png[:33] + chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + xmp(i)) + png[33:], i, image)
        text = f"\nexif\n{len(exif(i)) + 6:8}\n{(b'Exif' + bytes(2) + exif(i)).hex()}\n".encode()
        for name, form, data in (("text", b"tEXt", b"\0" + text), ("packed", b"zTXt", b"\0\0" + zlib.compress(text)), ("utf8", b"iTXt", b"\0" * 5 + text),
                                 ("utf8_packed", b"iTXt", b"\0\1\0\0\0" + zlib.compress(text))):
            turned(f"turned_png_{name}{i}", "png", "PNG: text of ImageMagick (`Raw profile type exif`)", png[:33] + chunk(form, b"Raw profile type exif" + data) + png[33:], i, image)
        turned(f"turned_late{i}", "png", "PNG: eXIf after the pixels", png[:-12] + chunk(b"eXIf", exif(i)) + png[-12:], i, image)
    for i in (0, 9):
        turned(f"turned_wrong{i}", "jpg", "an orientation of 0 or 9", jpeg[:2] + segment(0xE1, b"Exif\0\0" + exif(i)) + jpeg[2:], i, flat_jpeg)


def main():
    global FOLDER
    FOLDER = sys.argv[1]
    os.makedirs(FOLDER, exist_ok=True)
    for part in (bitmaps, tiffs, webps, jpegs, pngs, netpbms, others, orientations):
        part()
    with open(os.path.join(FOLDER, "kinds.json"), "w", encoding="utf-8") as file:
        json.dump(KINDS, file, indent=1)
    with open(os.path.join(FOLDER, "turned.json"), "w", encoding="utf-8") as file:
        json.dump(TURNED, file, indent=1)
    print(len(KINDS), "kinds")


if __name__ == "__main__":
    main()
