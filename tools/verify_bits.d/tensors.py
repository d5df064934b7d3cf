"""Reads safetensors files (https://huggingface.co/docs/safetensors) and compares two of them bit by bit."""
import array
import json
import mmap
import operator
import struct

MOST_HEADER = 100 << 20  # bytes; the format's own limit
SIZES = {"F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2, "U16": 2, "BOOL": 1, "I8": 1, "U8": 1}
FORMATS = {"F64": "d", "F32": "f", "F16": "e", "I64": "q", "U64": "Q", "I32": "i", "U32": "I", "I16": "h", "U16": "H", "I8": "b", "U8": "B",
           "BOOL": "?"}
WORDS = {8: "Q", 4: "I", 2: "H", 1: "B"}  # for array.array


class Malformed(ValueError):
    """The file is no safetensors file."""


class Tensor:
    """dtype, shape and bytes of one tensor."""

    def __init__(self, record, data):
        self.dtype, self.shape, (begin, end) = record["dtype"], record["shape"], record["data_offsets"]
        if not 0 <= begin <= end <= len(data):
            raise ValueError("a tensor lies outside of the file")
        self.bytes = data[begin:end]

    def kind(self):
        return f"{self.dtype} {self.shape}"

    def value(self, index):
        """Returns the value of an element, as text; of an unknown kind its bytes."""
        size = SIZES.get(self.dtype)
        if size is None:
            return self.bytes.hex()
        raw = bytes(self.bytes[index * size:(index + 1) * size])
        if self.dtype == "BF16":
            return repr(struct.unpack("<f", b"\0\0" + raw)[0])
        return repr(struct.unpack("<" + FORMATS[self.dtype], raw)[0])

    def place(self, index):
        """Returns the index of an element in each dimension."""
        place = []
        for length in reversed(self.shape):
            index, within = divmod(index, length)
            place.insert(0, within)
        return place


def read(path):
    """Returns the tensors of a file by name. Raises OSError and Malformed."""
    with open(path, "rb") as file:
        prefix = file.read(8)
        length = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else MOST_HEADER + 1
        if length > MOST_HEADER:
            raise Malformed(f"{path} is no safetensors file")
        try:
            header = json.loads(file.read(length))
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))[8 + length:]
            return {name: Tensor(record, data) for name, record in header.items() if name != "__metadata__"}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Malformed(f"{path} is no safetensors file: {error}") from error


def words(part, size):
    found = array.array(WORDS[size])
    found.frombytes(part)
    return found


def difference(one, other):
    """Returns how two tensors differ; None if they have the same bits."""
    if one.kind() != other.kind():
        return f"{one.kind()} and {other.kind()}"
    if one.bytes == other.bytes:
        return None
    size = SIZES.get(one.dtype)
    if size is None or len(one.bytes) != len(other.bytes) or len(one.bytes) % size:
        return "other bytes"
    pair = words(one.bytes, size), words(other.bytes, size)
    different = sum(map(operator.ne, *pair))
    first = next(index for index, (a, b) in enumerate(zip(*pair)) if a != b)
    return f"{different} of {len(pair[0])} values, the first at {one.place(first)}: {one.value(first)} and {other.value(first)}"


def differences(one, other):
    """Returns the differences of two files, as {tensor: what differs}, and the number of tensors."""
    found = {}
    for name in sorted(one.keys() | other.keys()):
        if name not in one or name not in other:
            found[name] = f"only in the {'first' if name in one else 'second'}"
        elif (differs := difference(one[name], other[name])) is not None:
            found[name] = differs
    return found, len(one.keys() | other.keys())
