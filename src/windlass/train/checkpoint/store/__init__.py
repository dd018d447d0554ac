"""Storage and inventory of checkpoints, without torch, so that the command line can use them.

Belongs here: names, manifests, retention (pure); storage backends (POSIX, object stores); verification. The standard
library only; fsspec and its packages are loaded for object stores alone.
"""
