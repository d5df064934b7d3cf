#!/usr/bin/env python3
"""Writes the small torch.save files of this folder and, beside each good one, the same tensors as safetensors.

  python make_pth.py OUT_DIR        (needs torch and safetensors)

tar.pth and python2.pth are those of tests/trainers/weights/weight_kinds.py.
"""
import collections, os, sys

import torch
from safetensors.torch import save_file

out = sys.argv[1]
torch.manual_seed(0)
base = torch.arange(24, dtype=torch.float32)
state = collections.OrderedDict(
    weight=torch.randn(4, 3, 2, 2),
    transposed=torch.randn(3, 5).t(),
    channels_last=torch.randn(2, 3, 4, 4).contiguous(memory_format=torch.channels_last),
    first_half=base[:12],
    second_half=base[12:].view(3, 4),
    bfloat16=torch.randn(6).bfloat16(),
    half=torch.randn(6).half(),
    double=torch.randn(2, 2, dtype=torch.float64),
    count=torch.tensor(7),
    flags=torch.tensor([True, False, True]),
    bytes=torch.arange(5, dtype=torch.uint8),
    empty=torch.zeros(0, 3),
)


def good(name, saved, expected, **options):
    torch.save(saved, os.path.join(out, name + ".pth"), **options)
    plain = lambda v: v.byte() if v.dtype == torch.bool else v  # our reader of safetensors has no bool
    tensors = {k: plain(v.detach()).contiguous().clone() for k, v in expected.items()}
    save_file(tensors, os.path.join(out, name + ".safetensors"))


good("zip", state, state)
good("legacy", state, state, _use_new_zipfile_serialization=False)
good("protocol4", state, state, pickle_protocol=4)
net = torch.nn.Sequential(torch.nn.Conv2d(3, 2, 3), torch.nn.BatchNorm2d(2))
good("module", net.state_dict(), net.state_dict())
wrapped = {"module." + k: v for k, v in net.state_dict().items()}
checkpoint = {"epoch": 3, "best": 0.5, "history": [1.0, 2.0], "note": "text", "optimizer": {"state": {}, "lr": None}, "model_state_dict": wrapped}
good("checkpoint", checkpoint, net.state_dict())
good("parameters", {k: torch.nn.Parameter(v) for k, v in net.state_dict().items() if v.is_floating_point()},
     {k: v for k, v in net.state_dict().items() if v.is_floating_point()})


class Harmful:
    def __reduce__(self):
        return os.system, ("exit 1",)


torch.save({"weight": Harmful()}, os.path.join(out, "bad_harmful.pth"))
torch.save(net, os.path.join(out, "bad_module.pth"))
torch.save({"epoch": 3, "weights": [torch.zeros(2)]}, os.path.join(out, "bad_no_state_dict.pth"))
