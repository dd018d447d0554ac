"""The start of a run: what makes no sense is refused before anything is sent, then all ranks meet."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Literal

from windlass import wire
from windlass.train import process
from windlass.train.asked import REPORT_EVERY, Asked, OnTrouble, refuse_unknown
from windlass.train.ending import leave_with_others, refuse_start
from windlass.train.errors import TrainError
from windlass.train.mesh.machine import degrees_asked
from windlass.train.parallel import float8
from windlass.train.parallel.plan import Recompute
from windlass.train.parallel.precision import Precision, numbers
from windlass.train.reform.connections import Connections
from windlass.train.run import Run
from windlass.train.telemetry.trackers import wanted


def init(  # noqa: PLR0913 - by name, and each with a default
    mesh: str = "",
    *,
    precision: Precision = "fp32",
    ac: Recompute = "none",
    seed: int = 0,
    not_finite: OnTrouble = "stop",
    spike: OnTrouble | Literal[""] = "",
    report_every: int = REPORT_EVERY,
    flops: float | None = None,
    report_to: str | Sequence[str] | None = None,
) -> Run:
    """Join the other ranks, as torchrun's variables say; without them be alone.

    `mesh`: degrees of parallelism, as "pp=2,dp=2,tp=2"; "auto" for the simplest in which the model fits, chosen when it
    is known; "" is what the job says, or else data parallelism on all ranks.
    `precision`: of the forward and backward pass; parameters and optimizer state stay fp32. `ac`: which activations are
    computed again in the backward pass instead of kept. `not_finite`: what becomes of a step whose gradients are no
    numbers: the run ends ("stop"), the step is left out ("skip"), or all go back to the newest good checkpoint, and on
    behind that step's batch ("rollback"). `spike`: the same of a step whose loss is far above the last ones', as
    `health.spike` has it; "" does not look. `report_every`: steps from one line on the console to the next, 0 for none.
    `flops`: of one sample, forward and backward, to tell how much of the devices is used; `flops.decoder` has them for
    a decoder's token. `report_to`: "tensorboard", "mlflow", "wandb", several of them, each with its place after a colon
    if need be ("tensorboard:/logs"), or "none"; nothing is what WINDLASS_REPORT_TO says. The first rank tells them.

    If the degrees do not make up the ranks that there are, the first rank says so and all leave: SystemExit.
    """
    wire.remove_error_file()
    try:
        found = degrees_asked(mesh or os.environ.get(wire.MESH, ""))
        low = numbers(precision)
        trackers = wanted(report_to)
        refuse_unknown(not_finite, spike)
    except TrainError as error:
        refuse_start(error, "RANK")  # all ranks read the same
    connections = Connections()
    try:
        with connections.noted():
            world = process.join()
        if low.float8:
            float8.refuse_where_there_is_none(world.device)
    except TrainError as error:
        refuse_start(error, "LOCAL_RANK")  # of this machine's GPUs
    except RuntimeError as error:  # who was quicker may have been refused already, by what follows
        leave_with_others(error)
        raise
    asked = Asked(mesh or os.environ.get(wire.MESH, ""), ac, seed, not_finite, spike, report_every, flops, trackers)
    return Run(world, connections, found, low, asked)
