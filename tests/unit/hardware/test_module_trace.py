"""The sizes of a traced module are those of the tensors that a real step keeps."""

import pytest
import torch
from torch import nn

from windlass.hardware.training.memory import Step, estimate_memory
from windlass.hardware.training.module_trace import size_module
from windlass.train.mesh.degrees import Degrees

WIDTH, LENGTH, HEADS = 64, 128, 4


def encoder(of_scores):
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0.1, batch_first=True)
    layer.self_attn.dropout = of_scores
    return nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)


def traced(of_scores, **options):
    return size_module(lambda: encoder(of_scores), f"{LENGTH}x{WIDTH}", "fp32", "encoder", **options)


def kept_on_this_cpu(of_scores):
    """Bytes that autograd keeps in a real forward pass of one sample, without parameters."""
    module = encoder(of_scores)
    known = {parameter.untyped_storage().data_ptr() for parameter in module.parameters()}
    kept = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            kept[storage.data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda packed: packed):
        module(torch.randn(1, LENGTH, WIDTH))
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values())


@pytest.mark.parametrize("of_scores", [0.0, 0.1, 0.5])
def test_a_traced_module_keeps_what_a_real_step_on_a_cpu_keeps(of_scores):
    assert traced(of_scores, fused_dropout=False).saved == pytest.approx(kept_on_this_cpu(of_scores), rel=0.01)


def test_fused_dropout_keeps_no_scores():
    fused, unfused = traced(0.1), traced(0.1, fused_dropout=False)
    assert fused.saved == traced(0.0).saved
    scores, result = 4 * HEADS * LENGTH * LENGTH, 4 * LENGTH * WIDTH
    kept_instead = 3 * scores + 4 * result  # softmax, mask and product; copies of queries, keys and values
    assert unfused.saved - fused.saved <= 3 * kept_instead
    assert unfused.saved - fused.saved >= 3 * 3 * scores
    assert unfused.block_saved - fused.block_saved == (unfused.saved - fused.saved) // 3


class VisionTransformer(nn.Module):
    """The vision transformer of benchmarks/plan_memory.py."""

    def __init__(self, of_scores):
        super().__init__()
        self.patches = nn.Conv2d(3, 384, 16, 16)
        layer = nn.TransformerEncoderLayer(384, 6, 1536, dropout=0.1, activation="gelu", batch_first=True)
        layer.self_attn.dropout = of_scores
        self.encoder, self.head = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False), nn.Linear(384, 1000)

    def forward(self, x):
        return self.head(self.encoder(self.patches(x).flatten(2).transpose(1, 2)).mean(1))


@pytest.mark.parametrize(("of_scores", "measured_mib"), [(0.0, 792), (0.1, 1101)])
def test_the_peak_of_a_vision_transformer_is_within_a_tenth_of_the_measured_one(of_scores, measured_mib):
    """Measured on a CPU in fp32 by benchmarks/plan_memory.py."""
    size = size_module(lambda: VisionTransformer(of_scores), "3x224x224", "fp32", "vit", fused_dropout=False)
    found = estimate_memory(size, Step(Degrees(), 16, foreach=False))
    assert found.peak / 2**20 == pytest.approx(measured_mib, rel=0.1)
