"""The controller: the loop that drives every backend, from events over lifecycle and schedule to commands.

Belongs here: the order of the steps. The effect of an event is decided by `core.lifecycle.state_machine`, the placement
of gangs by `core.cycle.scheduler`; commands are performed by the backend.

- `loop`: `run`, which commits, performs and waits; `controller`: `Controller`, which makes changes out of events
- `observer`: callbacks of a turn
- `turn`: the changes of one turn; `job_timers`, `job_ledger`: when a job is due, what the ledger holds of it
- `job_faults`: jobs that make a turn raise, set aside for a while
- `dependencies`, `node_losses`: events that follow from the end of other jobs and from the state of nodes
"""
