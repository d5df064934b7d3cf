class Block(nn.Module):
    def __init__(self, channels_in, channels_out, stride, shortcut):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels_out, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels_out)
        self.conv2 = nn.Conv2d(channels_out, channels_out, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels_out)
        self.shortcut_name = shortcut if stride != 1 or channels_in != channels_out else None
        if self.shortcut_name:
            convolution = nn.Conv2d(channels_in, channels_out, 1, stride, bias=False)
            self.add_module(shortcut, nn.Sequential(convolution, nn.BatchNorm2d(channels_out)))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return F.relu(y + (getattr(self, self.shortcut_name)(x) if self.shortcut_name else x))


class ResNet18(nn.Module):
    def __init__(self, kernel, stride, max_pool, shortcut):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, kernel, stride, padding=kernel // 2, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.max_pool = max_pool
        channels_in = 64
        for number, channels in enumerate((64, 128, 256, 512), 1):
            first = Block(channels_in, channels, 1 if number == 1 else 2, shortcut)
            self.add_module(f"layer{number}", nn.Sequential(first, Block(channels, channels, 1, shortcut)))
            channels_in = channels
        self.fc = nn.Linear(512, len(CONFIG["classes"]))

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        if self.max_pool:
            x = F.max_pool2d(x, 3, 2, padding=1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))
