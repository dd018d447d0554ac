"""The ranks of one node: their processes, environment, output and heartbeats.

Belongs here: what one agent knows and does about its own ranks (`node_ranks` and its parts), the variables that they
get (`environment`), the files and console lines that they print (`output`), the heartbeats that they send
(`heartbeats`), and the file in which other processes read their state (`status_file`).
Does not belong here: the members of a generation, which are decided by `windlass.agent.rendezvous`; forking, which is
`windlass.agent.fork_server`.
"""
