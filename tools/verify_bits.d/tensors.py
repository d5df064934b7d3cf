"""Compares two safetensors files bit by bit. tensor_files.py is the package's (python/mtrun)."""
import array
import mmap
import operator
import struct

from tensor_files import SIZES, read_head

FORMATS = {"F64": "d", "F32": "f", "F16": "e", "I64": "q", "U64": "Q", "I32": "i", "U32": "I", "I16": "h", "U16": "H", "I8": "b", "U8": "B",
           "BOOL": "?"}
WORDS = {8: "Q", 4: "I", 2: "H", 1: "B"}  # for array.array


class Tensor:
    """dtype, shape and bytes of one tensor."""

    def __init__(self, record, data):
        self.dtype, self.shape, self.bytes = record.dtype, list(record.shape), data[record.begin:record.end]

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
        return repr(struct.unpack("<" + FORMATS[self.dtype], raw)[0]) if self.dtype in FORMATS else raw.hex()

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
        records = read_head(file, path).records
        data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    return {name: Tensor(record, data) for name, record in records.items()}


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
