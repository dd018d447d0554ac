"""Transformations by block: selective recomputation repeats no matrix product; float8 converts fitting layers."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from small_models import Decoder, cross_entropy, tokens
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import default_collate

from windlass.train.errors import TrainError
from windlass.train.parallel import float8
from windlass.train.parallel.blocks import wrap_recomputation
from windlass.train.parallel.module_paths import find_blocks
from windlass.train.parallel.precision import parse_precision


class Counting(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[str] = Counter()

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        self.seen[operator.overloadpacket.__name__] += 1
        return operator(*args, **(kwargs or {}))


def operators(how: str) -> Counter[str]:
    """Count operators of one step, forward and backward."""
    torch.manual_seed(0)
    model = Decoder(layers=2)
    wrap_recomputation(model, find_blocks(model, ()), how)
    inputs, targets = default_collate(tokens(4))
    with Counting() as counting:
        cross_entropy(model(inputs), targets).backward()
    return counting.seen


def test_selective_recomputation_keeps_products_and_attention_only():
    nothing, selective, everything = (operators(how) for how in ("none", "selective", "full"))
    attention = next(name for name in nothing if name.startswith("_scaled_dot_product") and "backward" not in name)
    for expensive in ("mm", attention):
        assert selective[expensive] == nothing[expensive] < everything[expensive]
    assert nothing["silu"] < selective["silu"] == everything["silu"]


def test_float8_converts_the_layers_of_blocks_and_not_the_head():
    pytest.importorskip("torchao")
    torch.manual_seed(0)
    model = Decoder(layers=2)
    inputs, targets = default_collate(tokens(4))
    before = model(inputs)
    assert float8.convert(model, find_blocks(model, ()), emulates=True) == 2 * 7
    assert type(model.head) is torch.nn.Linear
    after = model(inputs)
    assert 0 < (after - before).abs().max() < 0.3 * before.abs().max()
    cross_entropy(after, targets).backward()
    assert all(each.grad is not None and torch.isfinite(each.grad).all() for each in model.parameters())


def test_float8_is_refused_without_its_package_and_without_a_gpu(monkeypatch):
    assert parse_precision("float8").dtype is torch.bfloat16
    monkeypatch.setattr(float8, "find_spec", lambda _: None)
    with pytest.raises(TrainError, match="precision='float8' needs the package torchao: pip install torchao"):
        float8.refuse_unsupported(torch.device("cpu"))
    monkeypatch.setattr(float8, "find_spec", lambda _: object())
    with pytest.raises(TrainError, match=r"needs a GPU of compute capability 8\.9"):
        float8.refuse_unsupported(torch.device("cpu"))
