"""Cluster files: nodes, queues, policies and reservations; and files with a snapshot of a cluster."""
