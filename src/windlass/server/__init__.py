"""The daemon and its face: JSON over HTTP on a unix socket, and the client of it.

Belongs here: the API (`service` says what each question means, `orders` what can be told, `app` speaks HTTP), the loop
that runs a controller, its world and the API in one process (`daemon`), the client (`client`), and who does which of
the two (`attach`). The questions are the same for every world: what a world must know for them is `facts`.
Does not belong here: decisions (core), processes and files (worlds.local), words and colours for people (cli).

`client`, `errors` and `socket` import the standard library only: every verb of the command line starts with them.
"""
