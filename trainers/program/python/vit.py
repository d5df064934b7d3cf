SIZE, PATCH, DIM, DEPTH, HEADS = 32, 4, 192, 6, 3


class Embedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.cls_token = nn.Parameter(torch.zeros(1, 1, DIM))
        self.pos_embedding = nn.Parameter(torch.zeros(1, (SIZE // PATCH) ** 2 + 1, DIM))
        self.proj = nn.Linear(3 * PATCH * PATCH, DIM)
        self.norm = nn.LayerNorm(DIM)

    def forward(self, x):
        n, side = x.shape[0], SIZE // PATCH
        patches = x.reshape(n, 3, side, PATCH, side, PATCH).permute(0, 2, 4, 1, 3, 5)
        tokens = self.proj(patches.reshape(n, side * side, 3 * PATCH * PATCH))
        return self.norm(torch.cat((self.cls_token.expand(n, -1, -1), tokens), 1) + self.pos_embedding)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(DIM, 3 * DIM, bias=False)
        self.proj = nn.Linear(DIM, DIM)

    def forward(self, x):
        n, tokens, _ = x.shape
        q, k, v = self.qkv(x).reshape(n, tokens, 3, HEADS, DIM // HEADS).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.proj(y.transpose(1, 2).reshape(n, tokens, DIM))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(DIM)
        self.attn = Attention()
        self.norm2 = nn.LayerNorm(DIM)
        self.fc1 = nn.Linear(DIM, 4 * DIM)
        self.fc2 = nn.Linear(4 * DIM, DIM)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class Model(nn.Module):
    """[n, 3, 32, 32] -> logits [n, classes]."""

    def __init__(self):
        super().__init__()
        self.embedding = Embedding()
        self.encoder = nn.Sequential(*(Layer() for _ in range(DEPTH)))
        self.norm = nn.LayerNorm(DIM)
        self.classifier = nn.Linear(DIM, len(CONFIG["classes"]))

    def forward(self, x):
        return self.classifier(self.norm(self.encoder(self.embedding(x))[:, 0]))
