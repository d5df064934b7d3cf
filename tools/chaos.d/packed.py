"""Makes a small packed data set (docs/formats.md) of images that a network can learn."""
import hashlib
import json
import os
import random
import struct

STEPS, BATCH = 20, 24          # steps per epoch, images per step
TRAIN, TEST = STEPS * BATCH - 7, 40  # the last step of an epoch is short


def shard(images, choose):
    """Returns a shard: each class has its own bright square over noise."""
    labels = [image % 10 for image in range(images)]
    pixels = bytearray(choose.randbytes(images * 32 * 32 * 3))
    for image, label in enumerate(labels):
        row, column = divmod(label, 4)
        for y in range(8):
            at = ((image * 32 + row * 8 + y) * 32 + column * 8) * 3
            pixels[at: at + 24] = b"\xff" * 24
    tensors = {"__metadata__": {"format": "mtrun-packed"},
               "labels": {"dtype": "I64", "shape": [images], "data_offsets": [0, 8 * images]},
               "images": {"dtype": "U8", "shape": [images, 32, 32, 3],
                          "data_offsets": [8 * images, 8 * images + len(pixels)]}}
    header = json.dumps(tensors).encode()
    header += b" " * (-(8 + len(header)) % 64)
    return struct.pack("<Q", len(header)) + header + struct.pack(f"<{images}q", *labels) + bytes(pixels)


def write(folder):
    index = {"format": "mtrun-packed", "version": 1, "height": 32, "width": 32, "channels": 3,
             "classes": [f"class{label}" for label in range(10)], "splits": {}}
    choose = random.Random(7)
    for split, images in (("train", TRAIN), ("test", TEST)):
        os.makedirs(os.path.join(folder, split))
        name, data = f"{split}/shard_00000.safetensors", shard(images, choose)
        with open(os.path.join(folder, name), "wb") as file:
            file.write(data)
        index["splits"][split] = {"images": images,
                                  "class_counts": [len(range(label, images, 10)) for label in range(10)],
                                  "shards": [{"file": name, "images": images, "bytes": len(data),
                                              "sha256": hashlib.sha256(data).hexdigest()}]}
    canonical = json.dumps(index, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    index["digest"] = hashlib.sha256(canonical.encode()).hexdigest()
    with open(os.path.join(folder, "index.json"), "w", encoding="utf-8") as file:
        json.dump(index, file)
    return folder
