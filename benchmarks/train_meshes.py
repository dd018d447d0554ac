"""The losses of every mesh of up to eight ranks against one process: the GPT example's decoder, fp32, 20 steps."""

import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

STEPS, TARGET = 20, 2e-6
SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
import torch
from model import Decoder, Shape
from torch.nn import functional as F
from windlass import train

SHAPE = Shape(vocabulary=64, width=64, layers=8, heads=8, length=32, hidden=128)
text = torch.randint(64, (400, 33), generator=torch.Generator().manual_seed(1))
with train.init(sys.argv[2], report_every=0) as run:
    plan = train.Plan(pipeline=("embed", "layers.*", "norm", "head"))
    model, optimizer = run.parallelize(lambda: Decoder(SHAPE), plan, lr=1e-3)
    data = run.data([(each[:-1], each[1:]) for each in text], global_batch=16)
    for batch in run.steps(data, int(sys.argv[3])):
        loss = run.backward(model, batch, lambda scores, text: F.cross_entropy(scores.flatten(0, 1), text.flatten()))
        run.step(optimizer, clip=1.0, loss=loss)
        mean_loss = run.mean_loss(model, loss)
        run.print(f"loss {mean_loss:.9f}")
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "train.py")
        script.write_text(SCRIPT)
        alone = losses(script, "", 1)
        worst = 0.0
        for mesh, ranks in meshes():
            found = losses(script, mesh, ranks)
            off = max(abs(a - b) for a, b in zip(alone, found, strict=True))
            worst = max(worst, off)
            print(f"{mesh:24} {ranks} ranks, off by {off:.1e}", flush=True)
    claim = "loss of every mesh up to 8 ranks against one process, fp32, 20 steps: largest difference"
    print(json.dumps({"claim": claim, "measured": worst, "unit": "nats", "target": TARGET}))


def meshes() -> list[tuple[str, int]]:
    """Every product of pp, dp, fsdp and tp of two to eight ranks, each a power of two."""
    degrees = itertools.product((1, 2, 4, 8), repeat=4)
    found = []
    for pp, dp, fsdp, tp in degrees:
        ranks = pp * dp * fsdp * tp
        if 1 < ranks <= 8:
            parts = {"pp": pp, "dp": dp, "fsdp": fsdp, "tp": tp}
            found.append((",".join(f"{name}={degree}" for name, degree in parts.items() if degree > 1), ranks))
    return sorted(found, key=lambda each: each[1])


def losses(script: Path, mesh: str, ranks: int) -> list[float]:
    example = Path(__file__).parents[1] / "examples/gpt"
    command = [sys.executable, "-m", "windlass.agent", f"--nproc-per-node={ranks}", script, example, mesh, str(STEPS)]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    ran = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=600)
    found = [float(loss) for loss in re.findall(r"loss (\d+\.\d+)", ran.stdout)]
    assert len(found) == STEPS, ran.stdout
    return found


if __name__ == "__main__":
    main()
