"""GPU utilisation of training: a Llama-3-8B-shaped decoder, sequences of 4096, bf16, all activations recomputed.

Parameters, gradients and optimizer state are bf16, because the model is built so; each block is compiled. FLOPs of a
token are 6 N + 12 L d T with all parameters in N, as in published results; recomputation does not count. Without a GPU
nothing is measured; `--tiny` runs the same code on a CPU.
"""

import argparse
import contextlib
import json
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

TARGET = 58.0
"""Percent."""
WARM, STEPS = 4, 12
PUBLISHED = (
    "published: 57.8 % on one H200 (10,471 tokens/s; same model, length, numbers, recomputation); torchtitan, "
    "Llama 3.1 8B on 8 H100 with FSDP: 5,762 tokens/s each, 6,667 compiled, 8,532 with float8"
)


def main() -> None:
    args = arguments()
    import torch  # noqa: PLC0415 - --help does not need it

    if not args.tiny and not torch.cuda.is_available():
        print("not measured: train_mfu needs a GPU of 80 GiB or more (an H200 for its target); this machine has none")
        return
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples/gpt"))
    from model import Shape  # noqa: PLC0415 - imports torch

    shape = Shape(128256, 4096, 32, 32, 4096, 14336, kv_heads=8, rope_base=500_000.0)
    if args.tiny:
        shape = Shape(256, 64, 2, 4, 32, 128, kv_heads=2, rope_base=500_000.0)
    parameters, seconds, device = train_model(shape, args.batch, compiles=not args.tiny)
    report(shape, args.batch, parameters, seconds, device)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="a model for any CPU: the same code, without a figure")
    parser.add_argument("--batch", type=int, default=4, help="sequences in a step")
    return parser.parse_args()


def train_model(shape, batch: int, *, compiles: bool) -> tuple[int, list[float], str]:  # noqa: ANN001 - torch is not loaded
    """Return (parameters, seconds of each step, name of the device)."""
    import torch  # noqa: PLC0415
    from model import Decoder  # noqa: PLC0415
    from torch.nn import functional  # noqa: PLC0415

    from windlass import train  # noqa: PLC0415

    def loss_of(scores: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(scores.flatten(0, 1).float(), text.flatten())

    text = torch.randint(shape.vocabulary, (64, shape.length + 1), generator=torch.Generator().manual_seed(1))
    seconds = []
    with train.init(ac="full", report_every=0) as run:

        def build() -> Decoder:
            with in_bf16(), run.world.device:
                return Decoder(shape)

        fused = run.world.device.type == "cuda"
        plan = train.Plan(compiles=compiles)
        model, optimizer = run.parallelize(build, plan, torch.optim.AdamW, lr=3e-4, fused=fused)
        data = run.data([(each[:-1], each[1:]) for each in text], global_batch=batch)
        begun = time.perf_counter()
        for batch_of in run.steps(data, WARM + STEPS):
            loss = run.backward(model, batch_of, loss_of)
            run.step(optimizer, clip=1.0, loss=loss)
            if fused:
                torch.cuda.synchronize()
            begun, spent = time.perf_counter(), time.perf_counter() - begun
            seconds.append(spent)
        count = sum(each.numel() for each in model.parameters())
        device = torch.cuda.get_device_name() if fused else "CPU"
        if fused:
            print(f"peak of {torch.cuda.max_memory_allocated() / 2**30:.0f} GiB of {device}")
    return count, seconds[WARM:], device


@contextlib.contextmanager
def in_bf16() -> Iterator[None]:
    """Build a model whose parameters, gradients and optimizer state are bf16."""
    import torch  # noqa: PLC0415

    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def report(shape, batch: int, parameters: int, seconds: list[float], device: str) -> None:  # noqa: ANN001
    from windlass.train.telemetry import flops  # noqa: PLC0415

    step, tokens = statistics.median(seconds), batch * shape.length
    of_token = flops.decoder(parameters, shape.layers, shape.width, shape.length)
    print(
        f"{parameters / 1e9:.2f} B parameters, {tokens:,} tokens in {step * 1000:.0f} ms: {tokens / step:,.0f} tokens/s"
    )
    share = flops.utilisation(of_token * tokens, step, 1, flops.peak_of(device))
    if share is None:
        print(f"not measured: train_mfu: the peak of {device} is not known")
        return
    print(PUBLISHED)
    what = f"MFU of a Llama-3-8B-shaped model, length {shape.length}, bf16, full recomputation, one {device}"
    print(json.dumps({"claim": what, "measured": share * 100, "unit": "%", "target": TARGET, "better": "higher"}))


if __name__ == "__main__":
    main()
