"""What both MPIJobs call their replicas."""

from __future__ import annotations

from dataclasses import replace

from windlass.jobs.kubernetes.kinds.replica_specs import ReplicaTypes

LAUNCHER, WORKER = "Launcher", "Worker"
V1 = ReplicaTypes(
    "mpiReplicaSpecs",
    (LAUNCHER, WORKER),
    "Never",
    single=(LAUNCHER,),
    needed=(LAUNCHER,),
    counts={WORKER: 0},
    fold_case=False,
)
V2 = replace(V1, restarts={LAUNCHER: "OnFailure"})
