"""What `windlass scaling` does: the same job on several numbers of ranks, one after the other, and what came of it.

Belongs here: a job made for so many ranks (`sizes`), running and hearing it (`measuring`, `hearing`), speed-up and
efficiency from what was heard (`figures`), a table, bars and a picture (`telling`, `drawing`). `sizes`, `figures` and
`drawing` are pure. Does not belong here: how a step's time is measured (`train.telemetry`).
"""
