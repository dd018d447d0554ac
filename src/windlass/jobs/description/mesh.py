"""The field `mesh`: degrees of parallelism of a job, by which `windlass.train` splits its model.

Only their product matters here: a job with another number of ranks is refused before it queues.
"""

from __future__ import annotations

import math

from windlass.jobs.syntax.field import Field
from windlass.jobs.syntax.value_types import named

DEGREES = r"(?:pp|dp|fsdp|cp|tp)=(?:[1-9][0-9]{0,5}|\*)"
MESH = Field(
    "mesh",
    "For scripts that use windlass.train: how a model is split over the ranks, by pipeline stages (pp), replicas (dp), "
    "shards (fsdp), parts of sequences (cp) and of matrices (tp). One degree may be *: what is left. auto: the "
    "simplest in which the model fits.",
    named(
        rf"(?:auto|{DEGREES}(?:,{DEGREES}){{0,4}})", "mesh", "degrees such as pp=2,dp=2,tp=2 or fsdp=*,tp=2, or auto"
    ),
    default="null",
    example="fsdp=*",
    flags=("--mesh",),
    nullable=True,
    foreign_names=("parallelism", "parallel"),
)


def mesh_mismatch(mesh: str, replicas: int, procs: int) -> str:
    """The fault of a mesh for a number of ranks, "" if it fits."""
    if mesh == "auto":
        return ""
    degrees = [part.partition("=")[2] for part in mesh.split(",")]
    known = math.prod(int(degree) for degree in degrees if degree != "*")
    ranks = replicas * procs
    text = f"{mesh} makes {known} ranks" if "*" not in degrees else f"{mesh} makes {known} ranks or a multiple"
    if known == ranks or ("*" in degrees and ranks % known == 0):
        return ""
    return (
        f"{text}, and there are {ranks}: {replicas} × {procs}; change the mesh, the nodes or the ranks on each (procs)"
    )
