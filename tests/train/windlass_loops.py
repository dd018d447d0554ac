"""The loops of the tests' scripts. Each is a function of a module, as ranks are started with it."""

from __future__ import annotations

from typing import Any

PIPELINE = ("embed", "layers.*", "norm", "head")


def losses(mesh: str, how: dict[str, Any], steps: int) -> list[float]:
    """The mean loss of each step of the small decoder."""
    from small_models import Decoder, cross_entropy, tokens  # noqa: PLC0415 - the process that collects need not

    from windlass import train  # noqa: PLC0415

    asked = {name: how[name] for name in ("precision", "ac") if name in how}
    planned = {name: how[name] for name in ("schedule", "loss_parallel") if name in how}
    found = []
    with train.init(mesh, **asked) as run:
        plan = train.Plan(pipeline=PIPELINE, **planned)
        model, optimizer = run.parallelize(lambda: Decoder(layers=8), plan, lr=1e-2)
        data = run.data(tokens(100), global_batch=24, micro_batch=how.get("micro_batch"))
        for batch in run.steps(data, max_steps=steps):
            loss = run.backward(model, batch, cross_entropy)
            run.step(optimizer, clip=0.1, loss=loss)
            found.append(run.mean_loss(model, loss))
    return found
