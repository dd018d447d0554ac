"""Estimates pi from random points on every rank of an MPI job; needs Open MPI and Python's standard library.

With `mpi4py` it would be shorter; direct calls of the library work in any image that has Open MPI.
"""

import ctypes
import os
import random

POINTS = 1_000_000
"""Random points of each rank."""


def main() -> None:
    mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
    mpi.MPI_Init(None, None)
    rank, size = int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"])
    print(f"rank {rank} of {size} on {os.uname().nodename}", flush=True)
    inside = ctypes.c_long(points_inside(random.Random(rank)))  # noqa: S311 - no secret
    total = ctypes.c_long()
    constant = lambda name: ctypes.byref(ctypes.c_char.in_dll(mpi, name))  # noqa: E731 - Open MPI's constants are objects
    long, add, world = map(constant, ("ompi_mpi_long", "ompi_mpi_op_sum", "ompi_mpi_comm_world"))
    mpi.MPI_Reduce(ctypes.byref(inside), ctypes.byref(total), 1, long, add, 0, world)
    if rank == 0:
        print(f"pi is about {4 * total.value / (size * POINTS):.3f}", flush=True)
    mpi.MPI_Finalize()


def points_inside(draw: random.Random) -> int:
    """Count the points of the unit square that are in the unit circle."""
    return sum(draw.random() ** 2 + draw.random() ** 2 < 1 for _ in range(POINTS))


if __name__ == "__main__":
    main()
