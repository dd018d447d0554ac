"""The supervisor: a small process that owns every rank of one state folder and outlives its controllers.

Belongs here: starting processes, reading their output, observing their end, killing the rest, and reporting it.
Does not belong here: the meaning of any of it. Standard library only, few imports, one thread: it is started as
`python -I -S`, apart from the rest of Windlass, must be ready within milliseconds and small enough to be forked fast.

`start` and `watchdog` start it; `supervisor` is the main loop, with the gangs; `event_loop` waits; `controller_timeout`
bounds the time without a controller; `controller_connection` talks to it; `orphans` finds the processes that gangs left
behind; `spawn` starts a process; `process_output` reads its output, which `log_files` stores, and `agent_messages`
those of agents; `kernel`, `proc`, `process_cleanup` talk to the kernel.
"""
