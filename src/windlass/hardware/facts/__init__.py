"""Tables of GPUs, cloud instances and network adapters, each row with its source.

Belongs here: figures of vendors' documents as data, and the look-up of a row by name. Does not belong here: prices,
which change; estimates, which are computed from these figures (`training`, `sharing`).
"""
