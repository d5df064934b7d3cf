#!/usr/bin/env python3
"""Writes one network's weights in every kind of file of the table in docs/trainers.md, and what Python says to each.

  python weight_kinds.py OUT_DIR        (needs torch, numpy and safetensors)

OUT_DIR/kinds.json lists them: {"kind", "file", "expected", "peer"}. `expected` names a safetensors file with the
values; `peer` is "reads" or "refuses": torch.load(weights_only=True), or safetensors for its own files.
"""
import argparse, collections, datetime, enum, gzip, io, json, os, pathlib, pickle, struct, sys, tarfile, warnings

import numpy, torch
from safetensors.torch import load_file, save_file

warnings.filterwarnings("ignore")
out = sys.argv[1]
network = torch.nn.Sequential(torch.nn.Conv2d(3, 2, 3), torch.nn.BatchNorm2d(2))
torch.manual_seed(0)
with torch.no_grad():
    for tensor in network.state_dict().values():
        # 1, 2 and 3: every dtype holds them, and none is its own negative.
        tensor.copy_(torch.randint(1, 4, tensor.shape))
state = network.state_dict()
plain = collections.OrderedDict((name, tensor.clone()) for name, tensor in state.items())
kinds = []


def path(name):
    return os.path.join(out, name)


def peer(file):
    try:
        if file.endswith(".safetensors"):
            load_file(path(file))
        else:
            torch.load(path(file), weights_only=True)
    except Exception:
        return "refuses"
    return "reads"


def add(kind, file, expected=None):
    name = "expected.safetensors"
    if expected is not None:
        name = file + ".expected"
        save_file({k: v.detach().clone().contiguous() for k, v in expected.items()}, path(name))
    kinds.append({"kind": kind, "file": file, "expected": name, "peer": peer(file)})


def saved(kind, file, what, expected=None, **options):
    torch.save(what, path(file), **options)
    add(kind, file, expected)


def changed(function):
    """The state dict with every tensor changed."""
    return collections.OrderedDict((name, function(tensor)) for name, tensor in plain.items())


save_file(plain, path("expected.safetensors"))


# ---- beside the weights
class Rank(enum.Enum):
    first = 1


class Recipe:
    def __init__(self):
        self.epochs = 3


class Tagged(torch.Tensor):
    pass


def with_attribute(tensor):
    tensor = tensor.clone()
    tensor.tag = "kept"
    return tensor


def parameter(tensor, **attributes):
    made = torch.nn.Parameter(tensor.clone(), requires_grad=False)
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


options = argparse.Namespace(lr=0.1, data=pathlib.PurePosixPath("data"), device=torch.device("cpu"))
saved("`argparse.Namespace` beside the weights", "namespace.pth", {"model": plain, "args": options, "epoch": 3})
saved("numpy scalars and arrays beside them", "numpy.pth",
      {"state_dict": plain, "best": numpy.float64(0.5), "history": numpy.arange(3),
       "seed": numpy.random.RandomState(1)})
schedulers = torch.optim.SGD(network.parameters(), lr=1.0)
saved("`Counter` and `OrderedDict` of a scheduler", "scheduler.pth",
      {"model": plain, "lr_scheduler": torch.optim.lr_scheduler.MultiStepLR(schedulers, [3, 5, 5]).state_dict()})
saved("dtype, device, `Size`, set, bytes, complex, a large number", "values.pth",
      {"net": plain, "dtype": torch.float16, "device": torch.device("cuda:1"), "size": torch.Size([2, 3]),
       "set": {1, "two"}, "bytes": b"\x00\xff", "complex": 1j, "large": 1 << 80, "random": torch.get_rng_state()})
saved("paths, dates, enums, `deque`, `defaultdict`, slices", "objects.pth",
      {"model": plain, "path": pathlib.Path("/tmp"), "date": datetime.datetime(2026, 1, 2), "rank": Rank.first,
       "frozen": frozenset([1]), "array": bytearray(b"ab"), "deque": collections.deque([1, 2], maxlen=3),
       "counts": collections.defaultdict(list, a=[1]), "part": slice(1, 2)})
saved("objects of your own classes, functions", "recipe.pth",
      {"model": plain, "recipe": Recipe(), "function": os.system})
saved("pickle protocols 3 to 5", "protocol5.pth",
      {"model": plain, "args": options, "set": {1}, "frozen": frozenset([1]), "bytes": b"\xff",
       "array": bytearray(b"ab"), "rank": Rank.first, "counts": collections.Counter("abc")}, pickle_protocol=5)

# ---- the tensors
saved("a parameter with an attribute", "parameter.pth", changed(lambda t: parameter(t, tag=1)))
saved("a tensor with an attribute, a `Buffer`", "attribute.pth",
      changed(lambda t: with_attribute(t) if t.dim() else torch.nn.Buffer(t)))
saved("a tensor with its negative bit", "negative.pth", changed(torch._neg_view), changed(torch.neg))
saved("expanded tensors", "expanded.pth", changed(lambda t: t.flatten()[0].expand(t.shape)),
      changed(lambda t: t.flatten()[0].expand(t.shape)))
saved("transposed and overlapping views", "views.pth",
      changed(lambda t: t.transpose(0, -1).contiguous().transpose(0, -1) if t.dim() else t))
saved("float8 of either kind", "float8.pth",
      changed(lambda t: t.to(torch.float8_e5m2 if t.dim() == 4 else torch.float8_e4m3fn)))
saved("uint16, uint32, uint64, int8, int16", "integers.pth",
      collections.OrderedDict((n, t.to(d)) for (n, t), d in zip(plain.items(), [
          torch.uint16, torch.uint32, torch.int8, torch.int16, torch.uint8, torch.uint16, torch.uint64])))
saved("float16, bfloat16, float64", "halves.pth",
      collections.OrderedDict((n, t.to(d)) for (n, t), d in zip(plain.items(), [
          torch.float16, torch.bfloat16, torch.float64, torch.float16, torch.bfloat16, torch.float64, torch.int64])))
saved("bool", "bool.pth", changed(lambda t: t > 1), changed(lambda t: (t > 1).float()))
saved("complex numbers", "complex.pth", changed(lambda t: t.to(torch.complex64)))
saved("sparse tensors", "sparse.pth", changed(lambda t: t.to_sparse() if t.dim() else t))
saved("quantised tensors", "quantised.pth",
      changed(lambda t: torch.quantize_per_tensor(t.float(), 1.0, 0, torch.qint8) if t.dim() else t))
saved("tensors of the meta device", "meta.pth", changed(lambda t: t.to("meta")))
saved("a class of tensors", "subclass.pth", changed(lambda t: t.as_subclass(Tagged)))
saved("an object in a tensor's place", "object.pth", dict(plain, **{"0.weight": Recipe()}))

# ---- names
saved("`module.` (DataParallel, DDP)", "ddp.pth", {"module." + k: v for k, v in plain.items()})
saved("`_orig_mod.` (torch.compile), `module._orig_mod.`", "compiled.pth",
      {"module._orig_mod." + k: v for k, v in plain.items()})
saved("`model.` (Lightning)", "lightning.pth", {"state_dict": {"model." + k: v for k, v in plain.items()}, "epoch": 1})
averaged = torch.optim.swa_utils.AveragedModel(network, use_buffers=True)
saved("`n_averaged` (AveragedModel)", "averaged.pth", averaged.state_dict())
save_file({"_orig_mod.module." + k: v for k, v in plain.items()}, path("wrapped.safetensors"))
add("the same in safetensors", "wrapped.safetensors")
saved("`_extra_state` of any type", "extra.pth", dict(plain, _extra_state=(1, "two"), **{"0._extra_state": b"bytes"}))
counted = dict(plain, **{"1.num_batches_tracked": plain["1.num_batches_tracked"].reshape(1)})
saved("`num_batches_tracked` of shape [1], or none", "counter.pth", counted)

# ---- containers
torch.serialization.set_crc32_options(False)
saved("`set_crc32_options(False)`", "unchecked.pth", plain)
torch.serialization.set_crc32_options(True)
saved("the format of before PyTorch 1.6", "legacy.pth", {"model": plain, "epoch": 3},
      _use_new_zipfile_serialization=False)


class Global:
    """A pickled global of any name."""

    def __init__(self, name):
        self.name = name


def raw_pickle(value, python2=False):
    """Pickles data of protocol 2; Global is a name, tuple ("call", f, arguments) a call, ("id", x) a persistent id."""
    def text(s):
        data = s.encode()
        return b"U" + bytes([len(data)]) + data if python2 else b"X" + struct.pack("<I", len(data)) + data

    def write(v):
        if isinstance(v, Global):
            return f"c{v.name.rpartition('.')[0]}\n{v.name.rpartition('.')[2]}\n".encode()
        if isinstance(v, tuple) and v[:1] == ("call",):
            return write(v[1]) + write(v[2]) + b"R"
        if isinstance(v, tuple) and v[:1] == ("id",):
            return write(v[1]) + b"Q"
        if isinstance(v, str):
            return text(v)
        if isinstance(v, bool):
            return b"\x88" if v else b"\x89"
        if isinstance(v, int):  # Python 2 writes large ones as text
            return b"J" + struct.pack("<i", v) if abs(v) < 1 << 31 else f"I{v}\n".encode()
        if isinstance(v, tuple):
            return b"(" + b"".join(write(x) for x in v) + b"t"
        if isinstance(v, list):
            return b"](" + b"".join(write(x) for x in v) + b"e"
        if isinstance(v, dict):
            return b"}(" + b"".join(write(k) + write(x) for k, x in v.items()) + b"u"
        assert v is None
        return b"N"

    return b"\x80\x02" + write(value) + b"."


storage_names = {torch.float32: "FloatStorage", torch.int64: "LongStorage"}
ordered = Global("collections.OrderedDict")
far = 140234 << 20  # addresses, as keys were


def tar_of(files, file):
    with tarfile.open(path(file), "w:", format=tarfile.PAX_FORMAT) as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


def write_tar(file, python2):
    """As torch.save did before 0.1.12: sys_info, pickle, tensors, storages."""
    storages, tensors, items = raw_pickle(len(plain)), raw_pickle(len(plain)), []
    for i, (name, tensor) in enumerate(plain.items()):
        data, key = tensor.contiguous(), far + i
        storages += raw_pickle((key, "cpu", Global("torch." + storage_names[tensor.dtype])), python2)
        storages += struct.pack("<q", data.numel()) + data.numpy().tobytes()
        tensors += raw_pickle((key + 4096, key, Global("torch.FloatTensor")))
        shape = list(data.shape) or [1]  # there were no tensors without dimensions
        strides = list(data.stride()) or [1]
        tensors += struct.pack(f"<i4x{len(shape)}q{len(shape)}qq", len(shape), *shape, *strides, 0)
        items.append([name, ("id", str(key + 4096))])
    storages += raw_pickle([])
    object_ = ("call", ordered, (items,))
    info = raw_pickle({"protocol_version": 1000, "little_endian": True})
    tar_of({"sys_info": info, "pickle": raw_pickle(object_, python2), "tensors": tensors, "storages": storages}, file)


write_tar("tar.pth", python2=False)
assert torch.equal(torch.load(path("tar.pth"), weights_only=False)["0.weight"], plain["0.weight"])
add("the tar format of before PyTorch 0.1.12", "tar.pth")
write_tar("tar2.pth", python2=True)
assert torch.equal(torch.load(path("tar2.pth"), weights_only=False)["0.weight"], plain["0.weight"])
add("the same by Python 2", "tar2.pth")


def write_python2(file):
    """The older format, by Python 2, with _rebuild_tensor and Parameter objects of before 0.4."""
    magic = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."
    items, data = [], b""
    for i, (name, tensor) in enumerate(plain.items()):
        type_ = Global("torch." + storage_names[tensor.dtype])
        storage = ("id", ("storage", type_, str(far + i), "cpu", tensor.numel(), None))
        shape, strides = tuple(tensor.shape) or (1,), tensor.stride() or (1,)
        items.append([name, ("call", Global("torch._utils._rebuild_tensor"), (storage, 0, shape, strides))])
        data += struct.pack("<q", tensor.numel()) + tensor.contiguous().numpy().tobytes()
    keys = [str(far + i) for i in range(len(plain))]
    with open(path(file), "wb") as f:
        f.write(magic + raw_pickle(1001) + raw_pickle({"little_endian": True}) +
                raw_pickle(("call", ordered, (items,)), python2=True) + raw_pickle(keys, python2=True) + data)


write_python2("python2.pth")
loaded = torch.load(path("python2.pth"), weights_only=False, encoding="latin1")
assert torch.equal(loaded["0.weight"], plain["0.weight"])
add("`_rebuild_tensor`, `OrderedDict` of Python 2", "python2.pth")

# ---- safetensors
save_file({n: t.to(d) for (n, t), d in zip(plain.items(), [
    torch.float8_e4m3fn, torch.float8_e5m2, torch.int8, torch.int16, torch.uint16, torch.uint32, torch.uint64])},
    path("types.safetensors"))
add("safetensors of F8_E4M3, F8_E5M2, I8, I16, U16, U32, U64", "types.safetensors")
save_file(changed(lambda t: t > 1), path("bool.safetensors"))
add("safetensors of BOOL", "bool.safetensors", changed(lambda t: (t > 1).float()))
save_file(changed(lambda t: t.to(torch.complex64)), path("complex.safetensors"))
add("safetensors of C64", "complex.safetensors")
names = list(plain)
parts = {"model-00001-of-00002.safetensors": names[:3], "model-00002-of-00002.safetensors": names[3:]}
for part, held in parts.items():
    save_file({n: plain[n] for n in held}, path(part))
with open(path("model.safetensors.index.json"), "w") as file:
    weight_map = {name: part for part, held in parts.items() for name in held}
    json.dump({"metadata": {"total_size": 1}, "weight_map": weight_map}, file)
add("a sharded model: `model.safetensors.index.json`", "model.safetensors.index.json")

# ---- no weights
torch.save(network, path("module.pth"))
add("a whole model instead of its state dict", "module.pth")
torch.jit.trace(network.eval(), torch.zeros(1, 3, 8, 8)).save(path("script.pt"))
add("a TorchScript program", "script.pt")


class Harmful:
    def __reduce__(self):
        return os.system, (f"touch {path('executed')}",)


saved("a pickle that runs a command", "harmful.pth", {"weight": Harmful()})
saved("the same beside the weights", "beside.pth", {"model": plain, "extra": Harmful()})
saved("no state dict", "nothing.pth", {"epoch": 3, "weights": [torch.zeros(2)]})


def bytes_file(kind, file, data):
    with open(path(file), "wb") as f:
        f.write(data)
    add(kind, file)


bytes_file("a plain pickle (`pickle.dump`)", "plain.pkl", pickle.dumps({k: v.numpy() for k, v in plain.items()}))
archive = io.BytesIO()
numpy.savez(archive, **{k: v.numpy() for k, v in plain.items()})
bytes_file("an archive of NumPy (.npz)", "arrays.npz", archive.getvalue())
bytes_file("an HDF5 file of Keras (.h5)", "keras.h5", b"\x89HDF\r\n\x1a\n" + bytes(64))
bytes_file("a GGUF file", "llama.gguf", b"GGUF\x03\0\0\0" + bytes(64))
bytes_file("a compressed file (.gz)", "weights.gz", gzip.compress(b"weights" * 9))
bytes_file("a web page", "page.safetensors", b"\n<!DOCTYPE html>\n<html><title>404</title></html>\n")
bytes_file("a pointer of Git LFS", "pointer.safetensors",
           b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 123\n")
bytes_file("a text", "text.pth", b"onnx::Conv_123 is not here\n")
bytes_file("an empty file", "empty.pth", b"")

with open(path("kinds.json"), "w") as file:
    json.dump(kinds, file, indent=1)
