"""The training library: fault-tolerant training on any mesh of GPUs, for scripts that need more than plain DDP.

    from windlass import train

    with train.init(mesh="fsdp=2,tp=2", precision="bf16") as run:
        model, optimizer = run.parallelize(build_model, train.Plan(), torch.optim.AdamW, lr=3e-4)
        data = run.data(dataset, global_batch=512)
        for batch in run.steps(data, max_steps=10_000):
            loss = run.backward(model, batch, loss_fn)
            run.step(optimizer, clip=1.0, loss=loss)

torch does the mathematics. This library decides the assignment of ranks to work, the order of samples, the step
consensus, what a good checkpoint is, and how a run recovers from lost ranks.

Belongs here: everything inside the training process. Imports torch and `windlass.wire`, nothing else of Windlass.
Does not belong here: starting processes (`agent`), deciding where they run (`core`).

Importing this package loads nothing until a name is used: the command line reads checkpoints through
`windlass.train.checkpoint.store` where torch is not installed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from windlass.train.checkpoint.store.errors import CheckpointError
    from windlass.train.errors import TrainError
    from windlass.train.learning_rate import scaled_lr
    from windlass.train.parallel.model import ParallelModel
    from windlass.train.parallel.plan import Plan
    from windlass.train.run import Run
    from windlass.train.start import init

_MODULES = {
    "CheckpointError": "windlass.train.checkpoint.store.errors",
    "ParallelModel": "windlass.train.parallel.model",
    "Plan": "windlass.train.parallel.plan",
    "Run": "windlass.train.run",
    "TrainError": "windlass.train.errors",
    "init": "windlass.train.start",
    "scaled_lr": "windlass.train.learning_rate",
}
__all__ = ["CheckpointError", "ParallelModel", "Plan", "Run", "TrainError", "init", "scaled_lr"]


def __getattr__(name: str) -> Any:
    """Import a public name at its first use."""
    if name not in _MODULES:
        raise AttributeError(f"windlass.train has no {name!r}")
    return getattr(import_module(_MODULES[name]), name)
