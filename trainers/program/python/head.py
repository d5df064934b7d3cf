import json
import math
import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

HERE = Path(__file__).resolve().parent
CONFIG = json.loads((HERE / "model.json").read_text(encoding="utf-8"))
INPUTS = ("images",)  # of the network, by name


