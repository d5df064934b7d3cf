class Block(nn.Module):
    expansion = 1

    def __init__(self, channels_in, width, stride, shortcut):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, width, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.make_shortcut(channels_in, width, stride, shortcut)

    def make_shortcut(self, channels_in, channels_out, stride, name):
        self.shortcut_name = name if stride != 1 or channels_in != channels_out else None
        if self.shortcut_name:
            convolution = nn.Conv2d(channels_in, channels_out, 1, stride, bias=False)
            self.add_module(name, nn.Sequential(convolution, nn.BatchNorm2d(channels_out)))

    def residual(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return self.bn2(self.conv2(y))

    def forward(self, x):
        return F.relu(self.residual(x) + (getattr(self, self.shortcut_name)(x) if self.shortcut_name else x))


class Bottleneck(Block):
    expansion = 4

    def __init__(self, channels_in, width, stride, shortcut):
        nn.Module.__init__(self)
        self.conv1 = nn.Conv2d(channels_in, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.make_shortcut(channels_in, 4 * width, stride, shortcut)

    def residual(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        return self.bn3(self.conv3(y))


class ResNet(nn.Module):
    def __init__(self, kernel, stride, max_pool, shortcut, depth=18):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, kernel, stride, padding=kernel // 2, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.max_pool = max_pool
        block, channels_in = Bottleneck if depth >= 50 else Block, 64
        for number, blocks in enumerate((2, 2, 2, 2) if depth == 18 else (3, 4, 6, 3)):
            width, stage = 64 << number, nn.Sequential()
            for place in range(blocks):
                stage.append(block(channels_in, width, 2 if number and not place else 1, shortcut))
                channels_in = block.expansion * width
            self.add_module(f"layer{number + 1}", stage)
        self.fc = nn.Linear(channels_in, len(CONFIG["classes"]))

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        if self.max_pool:
            x = F.max_pool2d(x, 3, 2, padding=1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))
