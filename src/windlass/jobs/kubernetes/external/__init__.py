"""External gangs: pods that name our scheduler and belong to none of our kinds.

Belongs here: the membership of pods in gangs, by dialect; when a gang is complete and what it requests; the status of
its PodGroup. Pure functions of pods and manifests.
Does not belong here: creating, binding or deleting pods; the controller that created these pods restarts them.

To the core such a gang is a job whose members exist already. Once as many are placed as must start together, every
late pod (the next one of a batch Job, the replacement of one that failed) is a gang of its own. A pod that has ended,
well or not, is reported to the core as done: its owner decides what follows.

Public names:
- `membership`: `membership(pod) -> GangKey | None`; `object_of(membership)`: the object with the size
- `gang_assembly`: `assemble_gangs(membership, pods, …) -> AssembledGangs`: the gangs to place, or the reason to wait
- `group_status`: `group_patch(...)`: the status of a PodGroup in the terms of its dialect
- `pod_demands`, `roles`: the demands of a group and the roles of its pods, for the assembly
- `observed_pod`: the fields of a pod that the others read
"""
