"""Training on any mesh of GPUs, with nothing lost: what a script imports when plain DDP is no longer enough.

    from windlass import train

    with train.init(mesh="fsdp=2,tp=2", precision="bf16") as run:
        model, optimizer = run.parallelize(build_model, train.Plan(), torch.optim.AdamW, lr=3e-4)
        data = run.data(dataset, global_batch=512)
        for batch in run.steps(data, max_steps=10_000):
            loss = run.backward(model, batch, loss_fn)
            run.step(optimizer, clip=1.0, loss=loss)

torch does the mathematics; what is here decides which rank does what, in which order samples come, what all agree on
at each step, what a good checkpoint is, and what happens when somebody is gone.

Belongs here: everything inside of the training process. Imports torch and `windlass.wire`, nothing else of Windlass.
Does not belong here: starting processes (`agent`), deciding where they run (`core`).

Importing this loads nothing until a name is used: the command line reads checkpoints through
`windlass.train.checkpoint.store` where torch is not installed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from windlass.train.checkpoint.store.errors import CheckpointError
    from windlass.train.errors import TrainError
    from windlass.train.parallel.model import ParallelModel
    from windlass.train.parallel.plan import Plan
    from windlass.train.rates import scaled_lr
    from windlass.train.run import Run
    from windlass.train.start import init

_HOMES = {
    "CheckpointError": "windlass.train.checkpoint.store.errors",
    "ParallelModel": "windlass.train.parallel.model",
    "Plan": "windlass.train.parallel.plan",
    "Run": "windlass.train.run",
    "TrainError": "windlass.train.errors",
    "init": "windlass.train.start",
    "scaled_lr": "windlass.train.rates",
}
__all__ = ["CheckpointError", "ParallelModel", "Plan", "Run", "TrainError", "init", "scaled_lr"]


def __getattr__(name: str) -> Any:
    """A name of the library, loaded when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"windlass.train has no {name!r}")
    return getattr(import_module(_HOMES[name]), name)
