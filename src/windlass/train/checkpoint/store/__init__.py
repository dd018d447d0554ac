"""Where checkpoints lie and what they say of themselves, without torch: the command line reads it, too.

Belongs here: names, manifests, retention (pure); places (POSIX, object stores); verification. The standard library
only; fsspec, and what it takes for a store, is loaded when a place is in one.
"""
