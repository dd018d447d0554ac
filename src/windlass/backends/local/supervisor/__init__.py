"""The supervisor: the small process that owns every rank of one state folder, and outlives whoever controls it.

Belongs here: starting processes, reading their output, seeing their end, killing what is left, and telling of it.
Does not belong here: what any of it means. Standard library only, few imports, one thread: it is started as
`python -I -S`, apart from the rest of Windlass, must be up within milliseconds and small enough to be forked cheaply.

`start` and `watchdog` start it; `watch` is the supervisor itself; `loop` waits; `vigil` says how long for a
controller; `line`
speaks with it; `gangs` keeps the processes; `spawn` starts one; `output` keeps what it prints; `kernel`, `proc`,
`sweep`: the kernel's side.
"""
