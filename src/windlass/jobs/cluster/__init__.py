"""Descriptions of a cluster: cluster files of the local backend and of simulations, and snapshot files.

- `cluster_file` reads a cluster file; `queues` and `policy_fields` have the tables and the checks of its parts
- `policy_names` reads policies by name, such as `sjf+easy`
- `snapshot_file` writes and reads the scheduler's input, for `windlass snapshot` and replays
"""
