"""Installation of Windlass in a cluster, its removal, and its check.

The only part of `deploy` that talks to a cluster, through `backends.kubernetes.client`. It prints nothing and asks no
questions: that belongs to the command line.
"""
