"""The daemon and its face: JSON over HTTP on a unix socket, and the client of it.

Belongs here: the API (`service` says what each call means, `app` speaks HTTP), the loop that runs a controller, its
world and the API in one process (`daemon`), the client (`client`), and who does which of the two (`session`).
Does not belong here: decisions (core), processes and files (worlds.local), words and colours for people (cli).

`client`, `errors` and `socket` import the standard library only: every verb of the command line starts with them.
"""
