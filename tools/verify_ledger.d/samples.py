"""The order of samples and what a step's ids come to, written a second time on purpose (docs/formats.md)."""
import hashlib
import struct

MASK = (1 << 64) - 1


def splitmix(x):
    z = (x + 0x9E3779B97F4A7C15) & MASK
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    return z ^ z >> 31


def fnv1a(name):
    h = 0xCBF29CE484222325
    for c in name.encode():
        h = (h ^ c) * 0x100000001B3 & MASK
    return h


class Order:
    """The permutation of one epoch."""

    def __init__(self, head, epoch):
        self.size, self.shuffle = head["size"], head["shuffle"]
        key = splitmix((fnv1a("sampler") ^ splitmix(head["seed"])) + epoch & MASK)
        self.half = max(4, ((self.size - 1).bit_length() + 1) // 2)
        self.keys = [splitmix(key + r & MASK) for r in range(8)]

    def sample(self, position):
        if not self.shuffle:
            return position
        half, low = self.half, (1 << self.half) - 1
        x = position
        while True:
            left, right = x >> half, x & low
            for key in self.keys:
                left, right = right, left ^ splitmix(key ^ right) >> 64 - half
            x = left << half | right
            if x < self.size:
                return x


def digest(ids):
    return hashlib.sha256(struct.pack(f"<{len(ids)}q", *ids)).hexdigest()


def gathered(ids):
    """What the workers' sums over these ids come to."""
    return {"samples": len(ids), "hash": f"{sum(splitmix(i) for i in ids) & MASK:016x}"}
