

class Model(ResNet):
    """[n, 3, 32, 32] -> logits [n, classes]."""

    def __init__(self):
        super().__init__(kernel=3, stride=1, max_pool=False, shortcut="shortcut")
