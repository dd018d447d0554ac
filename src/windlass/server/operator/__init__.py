"""The faces of the operator: one port for probes, metrics and the API, and the history of jobs.

Belongs here: what a cluster answers to the questions of `server.service` (`facts`, `pod_tasks`, `meaning`), what was
committed and how jobs ended, kept after their objects are gone (`history`), what the operator counts (`metrics`), the
HTTP application (`app`) and what brings it up (`faces`); and the process around all that (`run`).
Does not belong here: decisions (core), objects and pods (worlds.kubernetes), what is installed (deploy).

Nothing in here may slow down or stop the controller: what is written or fetched is written and fetched beside it.
"""
