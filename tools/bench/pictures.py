"""Makes pictures for benchmarks of decoding and reading; needs numpy and Pillow.

    python3 pictures.py FOLDER COUNT     # writes 0.jpg, 1.jpg, ... of quality 90 with a shorter side of 256 pixels
"""
import math
import os
import random
import sys

import numpy as np


def picture(random_numbers, height, width):
    """Returns gradients, edges and some noise: rougher than smooth images, smoother than the worst photographs."""
    rng = np.random.default_rng(random_numbers.randrange(1 << 30))
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    channels = []
    for _ in range(3):
        plane = np.zeros((height, width), np.float32)
        for _ in range(6):
            angle, scale = rng.uniform(0, 2 * math.pi), rng.uniform(8, 200)
            wave = np.sin((x * math.cos(angle) + y * math.sin(angle)) / scale + rng.uniform(0, 6))
            plane += np.where(rng.random() < 0.4, np.sign(wave), wave) * rng.uniform(5, 40)
        channels.append(128 + plane + rng.normal(0, 4, plane.shape))
    return np.stack(channels, 2).clip(0, 255).astype(np.uint8)


def main(folder, count):
    from PIL import Image
    numbers = random.Random(1)
    for i in range(count):
        width = round(256 * numbers.choice((1, 4 / 3, 3 / 2)))
        Image.fromarray(picture(numbers, 256, width)).save(os.path.join(folder, f"{i}.jpg"), quality=90)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
