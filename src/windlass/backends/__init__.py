"""Backends run jobs: on this machine, on Kubernetes, or in virtual time, all behind the port in `backends.port`.

Belongs here: carrying out commands and reporting events. Does not belong here: decisions.
Backends never import one another.
"""
