"""Gangs of others in this world: pods that name our scheduler and belong to none of our kinds.

Belongs here: which of them the controller hears of as jobs, and when; how they are bound whole or unwound, evicted, and
found again by a controller that takes over; what they and their PodGroups are told while they wait.
Does not belong here: which pods are one gang and what that needs (`jobs.kubernetes.external`), and making or restarting
pods, which is their owners'.

Nothing is stored but in the pods: the first pod of a gang is bound with the whole decision as an annotation, in the
same write, and only then are the others. So a gang of which any pod is bound can be completed, or unwound.
"""
