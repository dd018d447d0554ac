"""The model: a stack of feed-forward blocks. This file needs no change."""

from torch import Tensor, nn

WIDTH, BLOCKS = 512, 8


class FeedForwardBlock(nn.Module):
    """A feed-forward layer, added to its input: 2.1 million parameters, 8 MiB."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class BlockStack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(FeedForwardBlock() for _ in range(BLOCKS))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x
