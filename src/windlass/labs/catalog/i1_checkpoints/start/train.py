"""A small regression, sharded over all ranks by `windlass.train`, with checkpoints: python train.py --to PLACE --steps N"""

import argparse
import hashlib

import torch
from data import samples
from torch import nn

from windlass import train


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", required=True, help="a folder, or s3://BUCKET/NAME")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--every", default="10 steps", help="interval of saves: 10m, or 10 steps")
    args = parser.parse_args()
    with train.init(mesh="fsdp=*", seed=7, report_every=20) as run:
        model, optimizer = run.parallelize(network, optimizer=torch.optim.AdamW, lr=1e-2)
        data = run.data(samples(), global_batch=32)
        checkpoints = run.checkpoint(args.to, run.state(model, optimizer, data), every=args.every, keep=3)
        for batch in checkpoints.resume().steps(args.steps):
            loss = run.backward(model, batch, nn.functional.mse_loss)
            run.step(optimizer, loss=loss)
        run.print(f"step {args.steps}: parameters {digest(model)}")


def network():
    return nn.Sequential(nn.Linear(8, 512), nn.Tanh(), nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 1))


def digest(model):
    """Return a digest of all parameters: every rank has a part, and all ranks put them together."""
    whole = [value.full_tensor() if hasattr(value, "full_tensor") else value for value in model.parameters()]
    return hashlib.sha256(b"".join(value.detach().numpy().tobytes() for value in whole)).hexdigest()[:16]


if __name__ == "__main__":
    main()
