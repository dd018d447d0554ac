"""A rank of the job: prints its place, whichever system has started it."""

import os

rank = os.environ.get("SLURM_PROCID") or os.environ.get("RANK", "0")
ranks = os.environ.get("SLURM_NTASKS") or os.environ.get("WORLD_SIZE", "1")
print("rank", rank, "of", ranks, "on", os.environ.get("SLURMD_NODENAME") or os.environ.get("WINDLASS_NODE"))
