"""The decoder of the GPT example in the shape of Llama 3: keys and values are shared by heads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from forked_ranks import ForkedScript

ROOT = Path(__file__).parents[2]


def test_shared_keys_and_values_are_those_of_each_head_that_shares_them(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "examples/gpt")
    from model import Decoder, Shape  # noqa: PLC0415 - beside its script

    shape = Shape(vocabulary=32, width=32, layers=1, heads=4, length=8, hidden=48, kv_heads=2)
    shared, whole = Decoder(shape), Decoder(replace(shape, kv_heads=0))
    weights = shared.state_dict()
    for name in ("layers.0.attention.wk.weight", "layers.0.attention.wv.weight"):
        weights[name] = weights[name].unflatten(0, (2, 8)).repeat_interleave(2, dim=0).flatten(0, 1)
    whole.load_state_dict(weights)
    text = torch.randint(32, (2, 8))
    assert torch.allclose(shared(text), whole(text), atol=1e-6)


def test_the_benchmark_of_a_gpu_runs_on_a_cpu_and_reports_no_result():
    output = ForkedScript(ROOT / "benchmarks/train_mfu.py", "--tiny").finish()
    assert "not measured: train_mfu" in output
    assert '"claim"' not in output
