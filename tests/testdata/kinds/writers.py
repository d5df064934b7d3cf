"""What the files of make_kinds.py are written with: BMP, TIFF and WebP as Pillow does not write them. Needs Pillow alone."""
import io
import math
import struct
import zlib

from PIL import Image

WIDTH, HEIGHT = 37, 22


def photo(mode="RGB"):
    image = Image.new("RGBA", (WIDTH, HEIGHT))
    for y in range(HEIGHT):
        for x in range(WIDTH):
            shade = [int(127 + 120 * math.sin(x / 7 + y / 11)), int(127 + 120 * math.cos(x / 5)), 11 * y]
            if x + y > 40:
                shade = [255 - s // 2 for s in shade]
            if x < 4 and y < 4:
                shade = [255, 255, 255]
            image.putpixel((x, y), (*shade, (x * 7 + y * 5) % 256))
    return image if mode == "RGBA" else image.convert("RGB").convert(mode)


def rgb(image):
    """Converts as the exported model.py does: the high byte of 16-bit grey."""
    if image.mode.startswith("I;16"):
        image = Image.frombytes("L", image.size, image.tobytes()[0 if image.mode == "I;16B" else 1::2])
    elif image.mode == "I":
        image = image.point(lambda value: value * (1 / 256)).convert("L")
    return image.convert("RGB")


def saved(image, form, **how):
    out = io.BytesIO()
    image.save(out, form, **how)
    return out.getvalue()


def pixels(image):
    return [image.getpixel((x, y)) for y in range(image.height) for x in range(image.width)]


def image_of(function):
    image = Image.new("RGB", (WIDTH, HEIGHT))
    for y in range(HEIGHT):
        for x in range(WIDTH):
            image.putpixel((x, y), function(x, y))
    return image


def packed(values, bits, width, align=1):
    """Packs rows of small numbers, first pixel in the highest bits."""
    out = b""
    for at in range(0, len(values), width):
        row = 0
        for value in values[at:at + width]:
            row = row << bits | value
        count = (width * bits + 7) // 8
        row <<= 8 * count - width * bits
        out += row.to_bytes(count, "big") + b"\0" * (-count % align)
    return out


def bmp(bits, rows, header=40, coding=0, masks=(), palette=(), top_down=False, width=WIDTH, height=HEIGHT):
    """`rows`: the bytes of the pixels as stored; `palette`: (red, green, blue)."""
    if header == 12:
        info = struct.pack("<IHHHH", 12, width, height, 1, bits)
    else:
        info = struct.pack("<IiiHHIIiiII", header, width, -height if top_down else height, 1, bits, coding, len(rows), 2835, 2835,
                           len(palette), 0)
        packed_masks = struct.pack(f"<{len(masks)}I", *masks)
        info = info + packed_masks if header == 40 else (info + packed_masks).ljust(header, b"\0")
    colours = b"".join(bytes((b, g, r)) + (b"" if header == 12 else b"\0") for r, g, b in palette)
    at = 14 + len(info) + len(colours)
    return b"BM" + struct.pack("<IHHI", at + len(rows), 0, 0, at) + info + colours + rows


def bmp_rows(function, count):
    """Rows from the bottom, each pixel `count` bytes of the number that the function gives, padded to four bytes."""
    out = b""
    for y in reversed(range(HEIGHT)):
        row = b"".join(function(x, y).to_bytes(count, "little") for x in range(WIDTH))
        out += row + b"\0" * (-len(row) % 4)
    return out


def masked(masks, function):
    """Returns the rows of a masked BMP of `photo`, and its expected image."""
    image = photo()

    def channel(mask, value):
        shift = (mask & -mask).bit_length() - 1
        most = mask >> shift
        return value * most // 255 << shift, most, shift

    def number(x, y):
        return sum(channel(mask, value)[0] for mask, value in zip(masks, image.getpixel((x, y))))

    def shown(x, y):
        out = []
        for mask in masks:
            _, most, shift = channel(mask, 0)
            out.append((number(x, y) >> shift & most) * 255 // most)
        return tuple(out)

    return function(number), image_of(shown)


def tiff(tags, pieces, order="<", big=False, tiles=None):
    """`tags`: number -> (type, values); `pieces`: the bytes of strips, or of tiles of the size `tiles`."""
    tags = {256: (4, (WIDTH,)), 257: (4, (HEIGHT,)), **tags}
    if tiles:
        tags |= {322: (4, (tiles,)), 323: (4, (tiles,))}
    else:
        tags.setdefault(278, (4, (HEIGHT,)))
    at = 16 if big else 8
    tags[324 if tiles else 273] = (4, tuple(at + sum(map(len, pieces[:i])) for i in range(len(pieces))))
    tags[325 if tiles else 279] = (4, tuple(map(len, pieces)))
    body = b"".join(pieces)
    body += b"\0" * (-len(body) % 8)
    formats = {0: "I", 1: "B", 3: "H", 4: "I", 5: "I", 11: "f", 16: "Q"}
    word, inline, count_format = ("Q", 8, "Q") if big else ("I", 4, "H")
    directory = at + len(body)
    after = directory + struct.calcsize("=" + count_format) + len(tags) * (20 if big else 12) + inline
    entries, extra = b"", b""
    for number, (kind, values) in sorted(tags.items()):
        value = struct.pack(f"{order}{len(values)}{formats[kind]}", *values)
        if len(value) > inline:
            extra += b"\0" * (len(extra) % 2)
            field = struct.pack(order + word, after + len(extra))
            extra += value
        else:
            field = value.ljust(inline, b"\0")
        entries += struct.pack(f"{order}HH{word}", number, kind, len(values)) + field
    mark = (b"II" if order == "<" else b"MM") + struct.pack(order + "H", 43 if big else 42)
    head = mark + (struct.pack(order + "HHQ", 8, 0, directory) if big else struct.pack(order + "I", directory))
    return head + body + struct.pack(order + count_format, len(tags)) + entries + b"\0" * inline + extra


def shorts(*values):
    return 3, values


def plain(bits, samples, meaning, **more):
    return {258: shorts(*[bits] * samples), 259: shorts(1), 262: shorts(meaning), 277: shorts(samples)} | {int(k[1:]): v for k, v in more.items()}


def in_tiles(samples, side):
    """Cuts rows of 8-bit samples (WIDTH x HEIGHT) into padded tiles."""
    count = len(samples) // (WIDTH * HEIGHT)
    out = []
    for top in range(0, HEIGHT, side):
        for left in range(0, WIDTH, side):
            tile = b""
            for y in range(top, top + side):
                row = samples[count * WIDTH * y:count * WIDTH * (y + 1)] if y < HEIGHT else b""
                tile += row[count * left:count * (left + side)].ljust(count * side, b"\0")
            out.append(tile)
    return out


def without_marker(jpeg, marker):
    """Leaves out a segment of a JPEG's head."""
    at = 2
    while jpeg[at + 1] != marker:
        at += 2 + int.from_bytes(jpeg[at + 2:at + 4], "big")
    return jpeg[:at] + jpeg[at + 2 + int.from_bytes(jpeg[at + 2:at + 4], "big"):]


def stray(jpeg, marker, between):
    """Puts bytes before a segment of a JPEG's head."""
    at = 2
    while jpeg[at + 1] != marker:
        at += 2 + int.from_bytes(jpeg[at + 2:at + 4], "big")
    return jpeg[:at] + between + jpeg[at:]


def exif(orientation, kind=3):
    return struct.pack("<2sHIHHHII", b"II", 42, 8, 1, 274, kind, 1, orientation) + b"\0\0\0\0"


def xmp(orientation):
    return b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf tiff:Orientation="%d"/></x:xmpmeta>' % orientation


def segment(marker, body):
    return bytes((0xFF, marker)) + struct.pack(">H", len(body) + 2) + body


def chunk(name, body):
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def webp_with(file, name, body, flag):
    """Makes a WebP of the extended form, with a chunk after the pixels."""
    head = b"VP8X" + struct.pack("<I", 10) + bytes((flag, 0, 0, 0)) + struct.pack("<I", WIDTH - 1)[:3] + struct.pack("<I", HEIGHT - 1)[:3]
    rest = head + file[12:] + name + struct.pack("<I", len(body)) + body + b"\0" * (len(body) % 2)
    return b"RIFF" + struct.pack("<I", len(rest) + 4) + b"WEBP" + rest
