"""Cluster state for the scheduler: nodes, free capacity, topology, queues, volumes.

Belongs here: API objects as the core's nodes, topology, queues and affinity terms; pure and incremental, an event costs
microseconds. Does not belong here: the connection and its caches (`client`), the requests of a manifest
(`jobs.kubernetes`), the time of updates (`backend`).
"""
