"""Lines of rendered batch scripts: the variables of ranks under srun, and the requeue. Imports recognise them."""

from __future__ import annotations

import re

from windlass import wire

MASTER_PORT = 29500
_NAME = f'{wire.JOB_NAME}="$SLURM_JOB_NAME"'
IDENTITY_LINES = (f'export {wire.JOB_ID}="$SLURM_JOB_NAME-$SLURM_JOB_ID" {_NAME}',)
"""The id of a job, the same after each requeue."""
MEMBER_LINES = (
    f'export {wire.JOB_ID}="$SLURM_JOB_NAME-${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID" {_NAME}',
    f'export {wire.INDEX}="$SLURM_ARRAY_TASK_ID"',
)
"""The id of an array's member and its index."""
_NODE_ADDRESS = """"$(scontrol show node -o "$MASTER_ADDR" | sed -n 's/.* NodeAddr=\\([^ ]*\\).*/\\1/p')\""""
RANK_LINES = (
    f'export {wire.GENERATION}="$(( ${{SLURM_RESTART_COUNT:-0}} + 1 ))"',
    f'export {wire.CHECKPOINTS}="${{{wire.CHECKPOINTS}:-$PWD/checkpoints/${wire.JOB_ID}}}"',
    'export MASTER_ADDR="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)"',
    f'getent hosts "$MASTER_ADDR" > /dev/null || export MASTER_ADDR={_NODE_ADDRESS}',
    f'export MASTER_PORT="$(( {MASTER_PORT} + SLURM_JOB_ID % 1000 ))"',
)
"""The attempt, the folder of checkpoints, and the rendezvous: the first node and a port of this job.

The address of the node is that of Slurm's configuration where its name does not resolve.
"""
TORCHRUN_LINES = (
    'export PET_RDZV_BACKEND=c10d PET_RDZV_ENDPOINT="$MASTER_ADDR:$MASTER_PORT" PET_RDZV_ID="$SLURM_JOB_ID"',
    'export PET_NNODES="$SLURM_NNODES"',
)
"""Options of torchrun as variables: its command line stays as it is."""
PROCS_EXPORT = "export PET_NPROC_PER_NODE="
"""Begins the line with the number of ranks of each node that torchrun starts."""
RANK_SHELL = (
    "bash -c 'export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS "
    'LOCAL_WORLD_SIZE=$(( SLURM_NTASKS / SLURM_NNODES )) GROUP_RANK=$SLURM_NODEID; exec "$@"\' rank '
)
"""Starts a command as one rank."""
CODE_LINE = "code=$?"
EXIT_LINE = 'exit "$code"'
_REQUEUE = 'if [ "$code" != 0 ] && [ "${SLURM_RESTART_COUNT:-0}" -lt LIMIT ]; then scontrol requeue "$SLURM_JOB_ID"; fi'
_REQUEUE_LINE = re.compile(re.escape(_REQUEUE).replace("LIMIT", "([0-9]{1,7})"))


def requeue_line(limit: int) -> str:
    """The line that requeues a failed job, at most `limit` times."""
    return _REQUEUE.replace("LIMIT", str(limit))


def requeue_limit(line: str) -> int | None:
    """The limit of a line by `requeue_line`; None for any other line."""
    found = _REQUEUE_LINE.fullmatch(line)
    return int(found[1]) if found else None
