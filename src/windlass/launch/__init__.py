"""How a process of a gang learns who it is.

Belongs here: pure functions of (job, generation, rank, where it was placed), or of a foreign kind's names and sizes,
that give environment variables and the files read beside them.
Does not belong here: starting processes, choosing nodes or ports, reading this machine.
Imports: the standard library, `windlass.core` and `windlass.wire`.

Public names:
- `ranks`: `Rank`, `ranks_of(job) -> tuple[Rank, ...]`: every process of a gang, numbered
- `threads`: `Threads`, `threads_of(...)`: OMP_NUM_THREADS and why it is that
- `agent`: `Entry`, `entry_of(command)`, `agent_words(command)`: a command as one of `windlass agent`
- `torchrun`: `Rendezvous`, `environment(job, rank, *, job_id, generation, node, rendezvous, devices, cpu_share)`
- what the pods of a training operator's kinds are told, and what those pods are called: `pytorchjob`, `tf_config`,
  `jaxjob`, `xgboostjob`, `paddlejob`, `mpi`; `replica_names`: `replica_name(job, role, index)`
"""
