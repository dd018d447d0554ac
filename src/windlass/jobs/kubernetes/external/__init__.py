"""Gangs of others: pods that name our scheduler and belong to none of our kinds.

Belongs here: which pods are one gang, by whichever dialect says so; when it is complete and what it needs; what its
PodGroup's status is to say. Pure functions of pods and manifests.
Does not belong here: making, binding or deleting pods; whoever made these pods restarts them.

To the core such a gang is a job whose members exist already. Once as many are placed as must start together, every pod
that comes later (the next one of a batch Job, one in the place of another that failed) is a gang of its own. Of a pod
that has ended, whether well or not, the core is best told that it is done: what follows is its owner's to say.

Public names:
- `membership`: `membership(pod) -> Membership | None`; `Dialect`; `object_of(membership)`: which object says the size
- `gathering`: `gather(membership, pods, group, takes, known) -> Gathered`: the gangs to place, or why it must wait
- `group_status`: `group_patch(...)`: what a PodGroup's status is to say, in the words of its dialect
- `observed_pod`: the fields of a pod that decide
"""
