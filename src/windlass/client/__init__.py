"""Windlass from Python: `Client`, its generated twin `AsyncClient`, and the decorator `job`.

Belongs here: what `windlass.Client`, `windlass.AsyncClient` and `windlass.job` promise to programs. A client calls the
controller through the same clients as the command line; nothing here talks to a daemon or a cluster itself.
"""
