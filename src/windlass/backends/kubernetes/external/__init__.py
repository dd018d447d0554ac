"""External gangs: pods that name our scheduler and belong to none of our kinds.

Belongs here: when such pods are reported to the controller as jobs; binding a gang as a whole, unwinding, eviction,
recovery by a controller that takes over; the messages that its pods and PodGroups show while they wait.
Does not belong here: which pods are one gang and what it needs (`jobs.kubernetes.external`); creating or restarting
pods, which is their owners' task.

All state is stored in the pods: the first pod of a gang is bound with the whole decision as an annotation, in the
same write, and only then are the others bound. So a gang of which any pod is bound can be completed, or unwound.
"""
