"""Peak memory of real training steps on this CPU, and what `windlass plan` predicts for the same steps.

Each case runs in a process of its own: a decoder, or a module that the planner traces, makes three steps of AdamW, and
the process reports the high-water mark of its resident memory above what it held before the model was built. The last
cases shard a decoder over two ranks with FSDP2.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from windlass.hardware.training.memory import Step, estimate_memory
from windlass.hardware.training.model_size import ModelSize, parse_sizes, size_decoder
from windlass.hardware.training.module_trace import size_module
from windlass.train.mesh.degrees import Degrees

CASES = (
    # decoder or module, length, micro-batch, precision, recomputation
    ("layers=8,width=512,heads=8,ffn=1408,vocab=8192", 512, 4, "fp32", "none"),
    ("layers=8,width=512,heads=8,ffn=1408,vocab=8192", 512, 16, "fp32", "none"),
    ("layers=8,width=512,heads=8,ffn=1408,vocab=8192", 512, 16, "fp32", "full"),
    ("layers=6,width=768,heads=12,kv_heads=4,ffn=2048,vocab=16384", 512, 8, "fp32", "none"),
    ("layers=6,width=768,heads=12,kv_heads=4,ffn=2048,vocab=16384", 512, 8, "fp32", "full"),
    ("layers=12,width=1024,heads=16,ffn=2816,vocab=4096", 256, 2, "fp32", "none"),
    ("layers=12,width=1024,heads=16,ffn=2816,vocab=4096", 256, 8, "bf16", "none"),
    ("layers=8,width=512,heads=8,ffn=1408,vocab=8192", 512, 16, "bf16", "none"),
    ("mlp", 0, 4096, "fp32", "none"),
    ("encoder", 0, 8, "fp32", "none"),
    # chosen after the terms of the estimate
    ("layers=4,width=1024,heads=8,kv_heads=2,ffn=4096,vocab=32000", 512, 4, "bf16", "full"),
    ("layers=10,width=640,heads=10,ffn=1792,vocab=50304", 256, 4, "fp32", "none"),
    ("convolutions", 0, 24, "fp32", "none"),
    ("post-norm encoder", 0, 4, "fp32", "none"),
    # further models, chosen when the estimate was not changed any more
    ("layers=6,width=1024,heads=16,kv_heads=4,ffn=3584,vocab=32000", 256, 4, "bf16", "none"),
    ("layers=16,width=384,heads=6,ffn=1024,vocab=4096", 512, 16, "fp32", "full"),
    ("residual network", 0, 16, "fp32", "none"),
    ("vision transformer", 0, 16, "fp32", "none"),
    # attention with dropout of its scores, which a CPU keeps
    ("vision transformer with dropout of scores", 0, 16, "fp32", "none"),
    ("encoder with dropout of scores", 0, 8, "fp32", "none"),
    ("causal layers with dropout of scores", 0, 8, "fp32", "none"),
)
SHARDED = (
    # decoder, length, micro-batch; in fp32 on two ranks with FSDP2
    ("layers=8,width=768,heads=12,ffn=2048,vocab=8192", 256, 2),
    ("layers=6,width=512,heads=8,ffn=1408,vocab=8192", 256, 8),
)
STEPS = 3
SETTINGS = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_ARENA_MAX": "1"}


class Layer(nn.Module):
    """A layer as in Llama: RMS norms, grouped queries, a gated MLP; without position encoding."""

    def __init__(self, width: int, heads: int, kv_heads: int, ffn: int) -> None:
        super().__init__()
        self.shape = (heads, kv_heads, width // heads)
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        kv = kv_heads * (width // heads)
        self.q, self.k, self.v = (nn.Linear(width, size, bias=False) for size in (width, kv, kv))
        self.o = nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, ffn, bias=False), nn.Linear(width, ffn, bias=False)
        self.down = nn.Linear(ffn, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads, kv_heads, each = self.shape
        n = self.norm1(x)
        q = self.q(n).unflatten(-1, (heads, each)).transpose(1, 2)
        k, v = (part(n).unflatten(-1, (kv_heads, each)).transpose(1, 2) for part in (self.k, self.v))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=heads != kv_heads)
        x = x + self.o(mixed.transpose(1, 2).flatten(2))
        n = self.norm2(x)
        return x + self.down(functional.silu(self.gate(n)) * self.up(n))


class Decoder(nn.Module):
    """Embedding, layers and head."""

    def __init__(self, sizes: str, recompute: str) -> None:
        super().__init__()
        shape = parse_sizes(sizes)
        self.recompute = recompute
        self.embed = nn.Embedding(shape.vocab, shape.width)
        layer = (shape.width, shape.heads, shape.kv_heads, shape.ffn)
        self.layers = nn.ModuleList(Layer(*layer) for _ in range(shape.layers))
        self.norm, self.head = nn.RMSNorm(shape.width), nn.Linear(shape.width, shape.vocab, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.recompute == "full" else layer(x)
        return self.head(self.norm(x))


def mlp() -> nn.Module:
    return nn.Sequential(*(layer for _ in range(6) for layer in (nn.Linear(2048, 2048), nn.GELU())))


def encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)


def convolutions() -> nn.Module:
    layers: list[nn.Module] = []
    before = 3
    for width in (64, 128, 256, 512):
        for channels in (before, width):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
        layers.append(nn.MaxPool2d(2))
        before = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))


def post_norm_encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(384, 6, 1536, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, 8, enable_nested_tensor=False)


class Residual(nn.Module):
    """A bottleneck block as in ResNet-50; the first of a stage halves the image."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.path = nn.Sequential(
            *(nn.Conv2d(before, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()),
            *(nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()),
            *(nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)),
        )
        self.skip = nn.Sequential(nn.Conv2d(before, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))
        self.is_first = before != 4 * width

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.path(x) + (self.skip(x) if self.is_first else x))


def residual_network() -> nn.Module:
    blocks, before = list[nn.Module](), 64
    for width, count in ((64, 3), (128, 4), (256, 6)):
        for number in range(count):
            blocks.append(Residual(before, width, 2 if number == 0 and width > 64 else 1))
            before = 4 * width
    stem = (nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1024, 1000))


class VisionTransformer(nn.Module):
    """Patches of 16 × 16 pixels, an encoder with dropout, and a head on the mean.

    CPUs have no fused attention with dropout of the scores, and keep the scores then.
    """

    def __init__(self, of_scores: float = 0.0) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 384, 16, 16)
        layer = nn.TransformerEncoderLayer(384, 6, 1536, dropout=0.1, activation="gelu", batch_first=True)
        layer.self_attn.dropout = of_scores
        self.encoder, self.head = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False), nn.Linear(384, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(self.patches(x).flatten(2).transpose(1, 2)).mean(1))


class CausalLayer(nn.Module):
    """A layer as in GPT-2: one projection for queries, keys and values, causal attention with dropout of its scores."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2, self.drop = nn.LayerNorm(384), nn.LayerNorm(384), nn.Dropout(0.1)
        self.qkv, self.o = nn.Linear(384, 1152), nn.Linear(384, 384)
        self.mlp = nn.Sequential(nn.Linear(384, 1536), nn.GELU(), nn.Linear(1536, 384), nn.Dropout(0.1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.unflatten(-1, (6, 64)).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, -1))
        mixed = functional.scaled_dot_product_attention(q, k, v, dropout_p=0.1, is_causal=True)
        x = x + self.drop(self.o(mixed.transpose(1, 2).flatten(2)))
        return x + self.mlp(self.norm2(x))


def encoder_with_dropout() -> nn.Module:
    layer = nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.2, batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)


MODULES = {
    "vision transformer with dropout of scores": (lambda: VisionTransformer(0.1), "3x224x224"),
    "encoder with dropout of scores": (encoder_with_dropout, "512x512"),
    "causal layers with dropout of scores": (lambda: nn.Sequential(*(CausalLayer() for _ in range(4))), "512x384"),
    "residual network": (residual_network, "3x224x224"),
    "vision transformer": (VisionTransformer, "3x224x224"),
    "mlp": (mlp, "2048"),
    "encoder": (encoder, "512x512"),
    "convolutions": (convolutions, "3x64x64"),
    "post-norm encoder": (post_norm_encoder, "256x384"),
}


def model_size(name: str, length: int, precision: str) -> ModelSize:
    if name in MODULES:
        build, sample = MODULES[name]
        return size_module(build, sample, precision, name, fused_dropout=False)
    return size_decoder(parse_sizes(name), length, precision, name)


def predict(case: tuple[str, int, int, str, str]) -> int:
    name, length, micro_batch, precision, recompute = case
    step = Step(Degrees(), micro_batch, recompute, foreach=False)
    return estimate_memory(model_size(name, length, precision), step).peak


def resident(field: str) -> int:
    text = Path("/proc/self/status").read_text(encoding="ascii")
    return int(text.split(f"{field}:")[1].split()[0]) * 1024


def measure(case: tuple[str, int, int, str, str]) -> int:
    name, length, micro_batch, precision, recompute = case
    torch.manual_seed(0)
    warm_up(precision)
    gc.collect()
    before = resident("VmRSS")
    model = MODULES[name][0]() if name in MODULES else Decoder(name, recompute)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    for _ in range(STEPS):
        if name in MODULES:
            shape = [int(size) for size in MODULES[name][1].split("x")]
            inputs, target = torch.randn(micro_batch, *shape), None
        else:
            inputs = torch.randint(0, model.embed.num_embeddings, (micro_batch, length))
            target = inputs.flatten()
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            output = model(inputs)
            loss = output.square().mean() if target is None else functional.cross_entropy(output.flatten(0, 1), target)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return resident("VmHWM") - before


def warm_up(precision: str) -> None:
    """Loads the libraries that the first product and the first attention load."""
    x = torch.randn(1, 8, 64, 64, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
        functional.scaled_dot_product_attention(x, x, x, is_causal=True).sum().backward()
        layer = nn.Linear(64, 64)
        layer(x).sum().backward()
    torch.optim.AdamW(layer.parameters()).step()


def run_case(index: int) -> dict[str, object]:
    settings = {**os.environ, **SETTINGS, "OMP_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, __file__, "--case", str(index)], env=settings, check=True, capture_output=True, text=True
    )
    measured, predicted = int(done.stdout), predict(CASES[index])
    name, length, micro_batch, precision, recompute = CASES[index]
    row = {"model": name, "length": length, "micro_batch": micro_batch, "precision": precision, "recompute": recompute}
    return {**row, "measured": measured, "predicted": predicted, "error": predicted / measured - 1}


def measure_shard(index: int, rank: int, store: str) -> int:
    """Peak of one of two ranks; rank 0 prints it."""
    sizes, length, micro_batch = SHARDED[index]
    torch.manual_seed(0)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    warm_up("fp32")
    mesh = init_device_mesh("cpu", (2,))
    dist.all_reduce(torch.zeros(2**20))
    gc.collect()
    before = resident("VmRSS")
    with torch.device("meta"):
        model = Decoder(sizes, "none")
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    model.to_empty(device="cpu")
    for parameter in model.parameters():
        nn.init.normal_(parameter.to_local(), std=0.02)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    for _ in range(STEPS):
        inputs = torch.randint(0, model.embed.num_embeddings, (micro_batch, length))
        functional.cross_entropy(model(inputs).flatten(0, 1), inputs.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
    peak = resident("VmHWM") - before
    dist.destroy_process_group()
    return peak


def run_shards(index: int) -> dict[str, object]:
    sizes, length, micro_batch = SHARDED[index]
    with tempfile.TemporaryDirectory() as folder:
        ranks = [
            subprocess.Popen(
                [sys.executable, __file__, "--shard", str(index), str(rank), f"{folder}/store"],
                env={**os.environ, **SETTINGS, "OMP_NUM_THREADS": "1"},
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(2)
        ]
        measured = max(int(rank.communicate()[0]) for rank in ranks)
    step = Step(Degrees(fsdp=2), micro_batch, foreach=False)
    predicted = estimate_memory(model_size(sizes, length, "fp32"), step).peak
    row = {"model": f"{sizes} fsdp=2", "length": length, "micro_batch": micro_batch}
    row |= {"precision": "fp32", "recompute": "none"}
    return {**row, "measured": measured, "predicted": predicted, "error": predicted / measured - 1}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", type=int, help="measure this case in this process")
    parser.add_argument("--shard", nargs=3, help="measure this rank of a sharded case: case, rank, file of the store")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    if chosen.shard:
        print(measure_shard(int(chosen.shard[0]), int(chosen.shard[1]), chosen.shard[2]))
        return
    if chosen.case is not None:
        print(measure(CASES[chosen.case]))
        return
    rows = [run_case(index) for index in range(len(CASES))] + [run_shards(index) for index in range(len(SHARDED))]
    if chosen.json:
        print(json.dumps(rows, indent=2))
        return
    for row in rows:
        print(
            f"{row['measured'] / 2**20:7.0f} MiB measured {row['predicted'] / 2**20:7.0f} predicted "
            f"{row['error']:+6.1%}  {row['model']} length {row['length']} × {row['micro_batch']} "
            f"{row['precision']} recompute {row['recompute']}"
        )


if __name__ == "__main__":
    main()
