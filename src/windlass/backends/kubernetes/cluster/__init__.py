"""What the scheduler sees of a cluster: nodes, what is left of them, where they stand, queues, volumes.

Belongs here: API objects as the core's nodes, topology, queues and terms of affinity; pure and incremental, an event
costs microseconds. Does not belong here: the connection and its caches (`client`), what a manifest asks for
(`jobs.kubernetes`), when to look again (the world).
"""
