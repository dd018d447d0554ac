"""Contracts between a gang's processes and their launcher: how each process gets its identity and its peers.

Belongs here: pure functions of (job, generation, rank, placement), or of a foreign kind's names and sizes, that return
environment variables and the files read beside them.
Does not belong here: starting processes, choosing nodes or ports, reading this machine.
Imports: the standard library, `windlass.core` and `windlass.wire`.

Public names:
- `ranks`: `Rank`, `ranks_of(job) -> tuple[Rank, ...]`: every process of a gang, numbered
- `threads`: `Threads`, `threads_of(...)`: OMP_NUM_THREADS and the reason for its value
- `agent`: `Entry`, `entry_of(command)`, `agent_words(command)`: a command as one of `windlass agent`
- `torchrun`: `StoreAddress`, `environment(job, rank, *, job_id, generation, node, store, devices, cpu_share)`
- variables and names of the pods of a training operator's kinds: `pytorchjob`, `tf_config`, `jaxjob`, `xgboostjob`,
  `paddlejob`, `mpi`, `trainer`; `replica_names`: `replica_name(job, role, index)`
"""
