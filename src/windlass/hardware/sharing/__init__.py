"""Plans how workloads share GPUs: whole GPUs, MIG, MPS or time-slicing for each group of nodes, with the reasons.

Belongs here: the request (pools, workloads, arrivals), the options of each workload, their placement on nodes, the
simulation of arrivals, and the configuration files of a plan (`render`). Does not belong here: facts of GPUs
(`facts`), the places of MIG profiles (`core.model.mig`), decisions about running jobs (`core`).

`plan.plan_sharing` is the whole of it on one screen. Everything but the reading of files is pure and deterministic.
"""
