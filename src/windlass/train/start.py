"""Starts a run: refuses invalid options before anything is sent, then joins all ranks."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from typing import Literal

from windlass import wire
from windlass.train import process_group
from windlass.train.errors import TrainError
from windlass.train.mesh.hardware import requested_degrees
from windlass.train.options import REPORT_INTERVAL_STEPS, BadStepPolicy, RunOptions, check_policies
from windlass.train.parallel import float8
from windlass.train.parallel.plan import Recompute
from windlass.train.parallel.precision import Precision, PrecisionPolicy, parse_precision
from windlass.train.rank_exit import exit_if_peer_failed, refuse_start
from windlass.train.recovery.connections import GroupConnections
from windlass.train.run import Run
from windlass.train.telemetry.heartbeat import HeartbeatSender
from windlass.train.telemetry.trackers import parse_trackers


def init(  # noqa: PLR0913 - by name, and each with a default
    mesh: str = "",
    *,
    precision: Precision = "fp32",
    ac: Recompute = "none",
    seed: int = 0,
    not_finite: BadStepPolicy = "stop",
    spike: BadStepPolicy | Literal[""] = "",
    report_every: int = REPORT_INTERVAL_STEPS,
    flops: float | None = None,
    report_to: str | Sequence[str] | None = None,
) -> Run:
    """Join the other ranks as torchrun's variables describe them; without the variables, run as a single rank.

    `mesh`: degrees of parallelism, as "pp=2,dp=2,tp=2"; "auto" selects the simplest mesh in which the model fits, once
    the model is known; "" is the job's mesh, or else data parallelism on all ranks. `precision`: number format of the
    forward and backward pass; parameters and optimizer state stay fp32. `ac`: activations that the backward pass
    recomputes instead of keeping them. `not_finite`: policy for a step with NaN or infinite gradients: end the run
    ("stop"), leave the step out ("skip"), or return to the newest good checkpoint and continue after the batch of that
    step ("rollback"). `spike`: the same policy for a step whose loss is far above the last ones, as `health.loss_spike`
    defines; "" turns the check off. `report_every`: steps between two console lines, 0 for none. `flops`:
    floating-point operations of one sample, forward and backward, from which the utilisation of the devices is
    computed; `flops.decoder` has them for a token of a decoder. `report_to`: "tensorboard", "mlflow", "wandb", or
    several, each with an optional location after a colon ("tensorboard:/logs"), or "none"; None is the value of
    WINDLASS_REPORT_TO. The first rank reports.

    If the degrees do not multiply to the number of ranks, the first rank prints an error and all ranks exit:
    SystemExit.
    """
    wire.remove_error_file()
    try:
        found = requested_degrees(mesh or os.environ.get(wire.MESH, ""))
        low = parse_precision(precision)
        trackers = parse_trackers(report_to)
        check_policies(not_finite, spike)
    except TrainError as error:
        refuse_start(error, "RANK")  # all ranks read the same options
    connections = GroupConnections()
    heartbeat = HeartbeatSender(int(os.environ.get("RANK", "0")))
    heartbeat.mark("join")  # the agent then knows that ranks without heartbeats are awaited
    with contextlib.ExitStack() as unless_joined:
        unless_joined.callback(heartbeat.close)
        world = _join_world(connections, low)
        unless_joined.pop_all()
    options = RunOptions(
        mesh or os.environ.get(wire.MESH, ""), ac, seed, not_finite, spike, report_every, flops, trackers
    )
    return Run(world, connections, found, low, options, heartbeat)


def _join_world(connections: GroupConnections, precision: PrecisionPolicy) -> process_group.World:
    """Join the other ranks. Exits where this machine does not fit, or another rank has failed at its start."""
    try:
        with connections.tracking():
            world = process_group.join()
        if precision.float8:
            float8.refuse_unsupported(world.device)
    except TrainError as error:
        refuse_start(error, "LOCAL_RANK")  # about the GPUs of this machine
    except RuntimeError as error:  # a faster rank may have been refused already, by a later check
        exit_if_peer_failed(error)
        raise
    return world
