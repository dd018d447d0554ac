"""Carries an installation out in a cluster, takes it away again, and finds out what is wrong with one.

The only part of `deploy` that talks to a cluster, and only through `worlds.kubernetes.client`. It prints nothing and
asks nobody: that is the command line's.
"""
