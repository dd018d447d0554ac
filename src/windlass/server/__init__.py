"""The daemon, its JSON API over HTTP on a unix socket, and the API's client.

Belongs here: the API (`service` answers queries, `actions` defines what changes something, `app` speaks HTTP), the
process that runs a controller, its local backend and the API in one loop (`local_server`, `daemon`,
`embedded_controller`), the client (`client`), and the choice between client and controller (`discovery`). The queries
are the same for every backend; `data_source` is the protocol of what they need from one.
Does not belong here: decisions (core), processes and files (backends.local), texts and colors for people (cli).

`client`, `errors` and `unix_socket` import the standard library only, because every command of the CLI loads them.
"""
