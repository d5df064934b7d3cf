CHANNELS, BLOCKS = int(CONFIG["channels"]), int(CONFIG["blocks"])
MULTS = [int(number) for number in CONFIG["mults"].split(",")]
ATTENTION = [int(number) for number in CONFIG["attention"].split(",")]
CLASSES = len(CONFIG["classes"]) if CONFIG["conditional"] == "true" else 0
INPUTS = ("images", "times", "labels") if CLASSES else ("images", "times")
TIMES = 1000
GROUPS, TIME = min(32, CHANNELS), 4 * CHANNELS


def betas():
    """Returns the variances of the noise that training added, float64 [1000]: of --noise_schedule, without a limit."""
    if CONFIG["noise_schedule"] == "linear":
        return torch.linspace(1e-4, 0.02, TIMES, dtype=torch.float64)
    kept = [math.cos((time / TIMES + 0.008) / 1.008 * math.pi / 2) ** 2 for time in range(TIMES)]
    return torch.tensor([1 - now / before for now, before in zip(kept, [1.0] + kept)], dtype=torch.float64)


def group_norm(channels):
    return nn.GroupNorm(min(GROUPS, channels), channels)


class Residual(nn.Module):
    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.norm1 = group_norm(channels_in)
        self.conv1 = nn.Conv2d(channels_in, channels_out, 3, padding=1)
        self.temb = nn.Linear(TIME, channels_out)
        self.norm2 = group_norm(channels_out)
        self.conv2 = nn.Conv2d(channels_out, channels_out, 3, padding=1)
        self.skip = nn.Conv2d(channels_in, channels_out, 1) if channels_in != channels_out else nn.Identity()

    def forward(self, x, time):
        y = self.conv1(F.silu(self.norm1(x))) + self.temb(time)[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(y)))


class Attention(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = group_norm(channels)
        self.qkv = nn.Conv2d(channels, 3 * channels, 1)
        self.proj = nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        n, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x)).reshape(n, 3, c, h * w).transpose(2, 3).unbind(1)
        y = F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None])[:, 0]
        return x + self.proj(y.transpose(1, 2).reshape(n, c, h, w))


class Model(nn.Module):
    """Maps noisy images [n, 3, S, S], int64 times [n] in [0, 1000) and, if there are classes, int64 labels [n]
    (len(classes): none) to [n, 3, S, S]: the noise or the velocity, depending on CONFIG["prediction"]."""

    def __init__(self):
        super().__init__()
        self.time1, self.time2 = nn.Linear(CHANNELS, TIME), nn.Linear(TIME, TIME)
        self.conv_in = nn.Conv2d(3, CHANNELS, 3, padding=1)
        self.attn = nn.ModuleDict()
        self.down, self.up = nn.ModuleDict(), nn.ModuleDict()
        self.downsample, self.upsample = nn.ModuleDict(), nn.ModuleDict()
        channels, skips = CHANNELS, [CHANNELS]
        for level, mult in enumerate(MULTS):
            self.down[str(level)] = blocks = nn.ModuleList()
            for k in range(BLOCKS):
                blocks.append(Residual(channels, CHANNELS * mult))
                channels = CHANNELS * mult
                self._attend(f"down_{level}_{k}", level, channels)
                skips.append(channels)
            if level + 1 < len(MULTS):
                self.downsample[str(level)] = nn.Conv2d(channels, channels, 3, 2, padding=1)
                skips.append(channels)
        self.middle1, self.middle2 = Residual(channels, channels), Residual(channels, channels)
        self.middle_attn = Attention(channels)
        for level, mult in reversed(list(enumerate(MULTS))):
            self.up[str(level)] = blocks = nn.ModuleList()
            for k in range(BLOCKS + 1):
                blocks.append(Residual(channels + skips.pop(), CHANNELS * mult))
                channels = CHANNELS * mult
                self._attend(f"up_{level}_{k}", level, channels)
            if level > 0:
                self.upsample[str(level)] = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm_out = group_norm(channels)
        self.conv_out = nn.Conv2d(channels, 3, 3, padding=1)
        if CLASSES:
            self.class_embedding = nn.Embedding(CLASSES + 1, TIME)

    def _attend(self, name, level, channels):
        if CONFIG["image_size"] >> level in ATTENTION:
            self.attn[name] = Attention(channels)

    def _step(self, name, block, x, time):
        x = block(x, time)
        return self.attn[name](x) if name in self.attn else x

    def _time(self, t, labels, dtype):
        half = CHANNELS // 2
        frequency = torch.exp(-math.log(10000) / (half - 1) * torch.arange(half, device=t.device).double())
        angle = t.double()[:, None] * frequency
        time = self.time2(F.silu(self.time1(torch.cat((angle.sin(), angle.cos()), 1).to(dtype))))
        return F.silu(time + self.class_embedding(labels) if CLASSES else time)

    def forward(self, x, t, labels=None):
        time = self._time(t, labels, x.dtype)
        x = self.conv_in(x)
        skips = [x]
        for level in range(len(MULTS)):
            for k, block in enumerate(self.down[str(level)]):
                x = self._step(f"down_{level}_{k}", block, x, time)
                skips.append(x)
            if level + 1 < len(MULTS):
                x = self.downsample[str(level)](x)
                skips.append(x)
        x = self.middle2(self.middle_attn(self.middle1(x, time)), time)
        for level in reversed(range(len(MULTS))):
            for k, block in enumerate(self.up[str(level)]):
                x = self._step(f"up_{level}_{k}", block, torch.cat((x, skips.pop()), 1), time)
            if level > 0:
                x = self.upsample[str(level)](F.interpolate(x, scale_factor=2, mode="nearest"))
        return self.conv_out(F.silu(self.norm_out(x)))
