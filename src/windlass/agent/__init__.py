"""`windlass agent`: one per node, in the place of torchrun. Starts, watches and restarts ranks.

Standard library and `windlass.wire` only, and Python 3.9's: packed into one file it runs in any image. Only the
nursery, the process that ranks are forked from, imports torch.
"""
