"""A loop in which the loss of some batches is NaN, or far too large."""

from __future__ import annotations

import contextlib
import io
from typing import Any


def trained(place: str, steps: int, how: dict[str, Any]) -> dict[str, Any]:
    """Return the batches of the steps that count, this rank's sum of parameters, its stderr, and its exit code."""
    import torch  # noqa: PLC0415
    from small_models import Decoder, cross_entropy, tokens  # noqa: PLC0415

    from windlass import train  # noqa: PLC0415
    from windlass.train.health import loss_spike  # noqa: PLC0415

    loss_spike.MIN_STEPS = 4
    result: dict[str, Any] = {"batches": {}, "code": 0}
    err = io.StringIO()
    try:
        with contextlib.redirect_stderr(err), train.init(how.get("mesh", ""), report_every=0, **how["asked"]) as run:
            model, optimizer = run.parallelize(lambda: Decoder(layers=1, dropout=0.1), lr=1e-2)
            data = run.data(tokens(400), global_batch=12)
            checkpoints = run.checkpoint(place, run.state(model, optimizer, data), every="4 steps").resume()
            data.samples = how.get("from", data.samples)
            for batch in checkpoints.steps(steps):
                result["batches"][run.steps_done] = batch.step
                loss = run.backward(model, batch, cross_entropy)
                if run.world.rank == how.get("rank", 0):
                    loss = loss * how.get("factors", {}).get(batch.step, 1.0)
                run.step(optimizer, clip=1.0, loss=loss)
            result["sum"] = [float(each.detach().double().sum()) for each in model.parameters()]
            assert all(torch.isfinite(each).all() for each in model.parameters())
    except SystemExit as left:
        result["code"] = int(left.code or 0)
    return {**result, "err": err.getvalue()}
