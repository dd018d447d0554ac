"""`windlass agent`: replaces torchrun. One runs on each node; it starts, watches and restarts the ranks.

Belongs here: the agent's process (`agent`), its command line (`options`), the rules of restarts (`rendezvous`), the
ranks of its node (`ranks`), and the process that forks them (`fork_server`). Standard library and `windlass.wire` only,
in the syntax of Python 3.9: packed into one file (`pack`) it runs in any image. Only the fork server imports torch.
"""
