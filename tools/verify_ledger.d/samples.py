"""The order of samples and the sums over a step's ids, implemented a second time on purpose (docs/formats.md)."""
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


def stream_key(seed, name, index):
    return splitmix((fnv1a(name) ^ splitmix(seed)) + index & MASK)


class Permutation:
    """A permutation of 0 .. size - 1."""

    def __init__(self, key, size):
        self.size = size
        self.half = max(4, ((size - 1).bit_length() + 1) // 2)
        self.keys = [splitmix(key + r & MASK) for r in range(8)]

    def __call__(self, position):
        half, low = self.half, (1 << self.half) - 1
        x = position
        while True:
            left, right = x >> half, x & low
            for key in self.keys:
                left, right = right, left ^ splitmix(key ^ right) >> 64 - half
            x = left << half | right
            if x < self.size:
                return x


class Streams:
    """The streamed order of one epoch: the location of position i of stream v."""

    def __init__(self, head, epoch):
        seed, counts, fixed = head["seed"], head["shards"], head["shuffle"] == "fixed_streams"
        self.batch, self.micro = head["global_batch"], head["micro_batch"]
        whole, rest = divmod(head["size"], self.batch)
        bounds = [whole * min(end, self.batch) + min(end, rest) for end in range(0, self.batch + self.micro, self.micro)]
        first = running(counts)
        permuted = Permutation(stream_key(seed, "shards", 0 if fixed else epoch), len(counts))
        line, at = [], 0  # the permuted shards in sequence: (start position, first sample, samples)
        for shard in map(permuted, range(len(counts))):
            line.append((at, first[shard], counts[shard]))
            at += counts[shard]
        self.streams = []
        for stream, (begin, end) in enumerate(zip(bounds, bounds[1:])):
            parts = [(start + max(begin, at) - at, min(end, at + count) - max(begin, at)) for at, start, count in line]
            parts = [part for part in parts if part[1] > 0]
            if fixed:
                parts = list(map(parts.__getitem__, map(Permutation(splitmix(stream_key(seed, "parts", epoch) + stream & MASK),
                                                                    len(parts)), range(len(parts)))))
            key = splitmix(stream_key(seed, "windows", epoch) + stream & MASK)
            windows = [parts[i:i + head["window"]] for i in range(0, len(parts), head["window"])]
            self.streams.append([(window, Permutation(splitmix(key + g & MASK), sum(count for _, count in window)))
                                 for g, window in enumerate(windows)])

    def __call__(self, position):
        step, row = divmod(position, self.batch)
        stream, row = divmod(row, self.micro)
        at = step * min(self.micro, self.batch - stream * self.micro) + row
        for window, permuted in self.streams[stream]:
            if at < permuted.size:
                at = permuted(at)
                for start, count in window:
                    if at < count:
                        return start + at
                    at -= count
            at -= permuted.size
        raise ValueError(f"position {position} is beyond the epoch")


def running(counts):
    total, sums = 0, []
    for count in counts:
        sums.append(total)
        total += count
    return sums


class Order:
    """The sample at each position of an epoch."""

    def __init__(self, head, epoch):
        if head["shuffle"] in ("streams", "fixed_streams"):
            self.sample = Streams(head, epoch)
        elif head["shuffle"]:
            self.sample = Permutation(stream_key(head["seed"], "sampler", epoch), head["size"])
        else:
            self.sample = lambda position: position


def digest(ids):
    return hashlib.sha256(struct.pack(f"<{len(ids)}q", *ids)).hexdigest()


def gathered(ids):
    """Returns the workers' sums over these ids."""
    return {"samples": len(ids), "hash": f"{sum(splitmix(i) for i in ids) & MASK:016x}"}
