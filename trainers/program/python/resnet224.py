

class Model(ResNet):
    """[n, 3, S, S] -> logits [n, classes]; images of another size than image_size are enlarged to it."""

    def __init__(self):
        super().__init__(kernel=7, stride=2, max_pool=True, shortcut="downsample", depth=int(CONFIG.get("depth", 18)))

    def forward(self, x):
        size = CONFIG["image_size"]
        if x.shape[2] != size:
            x = F.interpolate(x, (size, size), mode="bilinear", align_corners=False)
        if CONFIG["normalize"] == "imagenet":
            mean = torch.tensor([0.485, 0.456, 0.406], dtype=x.dtype, device=x.device).view(1, 3, 1, 1)
            deviation = torch.tensor([0.229, 0.224, 0.225], dtype=x.dtype, device=x.device).view(1, 3, 1, 1)
            x = (x * 0.5 + 0.5 - mean) / deviation
        return super().forward(x)
