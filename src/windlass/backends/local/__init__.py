"""The local backend: jobs as processes on this machine.

Belongs here: everything that touches processes, files and devices of this machine. Does not belong here: the meaning of
events and the choice of nodes (core), HTTP (server), text for people beyond one line of detail (cli).
Importing this package alone imports nothing, so that a supervisor can be started before the rest is loaded.
docs/design/local-backend.md describes the design.

- `backend`: `LocalBackend`, which implements `backends.port.Backend`, and the methods that the API calls
- `paths`, `folder_lock`: the state folder, its files, and its lock
- `state_store`, `state_reader`: the SQLite database; the reader also works beside a controller; `name_resolution`,
  `submission_origins`: jobs by name, and the clients that submitted them
- `supervisor/`: the process that owns the ranks; `supervisor_start`, `supervisor_connection`, `supervisor_client`: the
  controller's side of it
- `nodes`, `gpus`, `devices`: the machine, its GPUs, and their assignment to replicas
- `launched_gangs`, `launched_gang`, `launch_message`, `launcher_choice`, `exit_reports`: a gang from its launch to its
  end
- `logs`, `rank_activity`, `checkpoints`: the output of ranks, their activity, their checkpoint places
- `client_watch`, `clock`, `reservation_notes`: clients of jobs, time, reservations made at run time
"""
