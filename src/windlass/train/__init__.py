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
"""

from windlass.train.errors import TrainError
from windlass.train.parallel.model import ParallelModel
from windlass.train.parallel.plan import Plan
from windlass.train.run import Run, init

__all__ = ["ParallelModel", "Plan", "Run", "TrainError", "init"]
