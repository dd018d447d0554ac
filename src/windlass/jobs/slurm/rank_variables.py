"""Lines of rendered batch scripts that give the ranks of `srun` the variables of torchrun; imports recognise them."""

from __future__ import annotations

MASTER_PORT = 29500
RANK_LINES = (
    'export MASTER_ADDR="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)"',
    f'export MASTER_PORT="$(( {MASTER_PORT} + SLURM_JOB_ID % 1000 ))"',
)
"""The rendezvous: the first node, and a port that differs between jobs of one node."""
TORCHRUN_LINES = (
    *RANK_LINES,
    'export PET_RDZV_BACKEND=c10d PET_RDZV_ENDPOINT="$MASTER_ADDR:$MASTER_PORT" PET_RDZV_ID="$SLURM_JOB_ID"',
    'export PET_NNODES="$SLURM_NNODES"',
)
"""Options of torchrun as variables: its command line stays as it is."""
RANK_SHELL = (
    "bash -c 'export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS "
    'LOCAL_WORLD_SIZE=$(( SLURM_NTASKS / SLURM_NNODES )) GROUP_RANK=$SLURM_NODEID; exec "$@"\' rank '
)
"""Starts a command as one rank."""
PROCS_EXPORT = "export PET_NPROC_PER_NODE="
"""Begins the line with the number of ranks of each node that torchrun starts."""
