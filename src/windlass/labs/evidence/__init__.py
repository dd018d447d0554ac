"""Evidence about a lab for its check: jobs, logs, metrics, checkpoints, files, processes, objects of the cluster.

Belongs here: reading, with limits, what programs and clusters left. Nothing here changes or executes anything of the
learner. Every answer that cannot be read becomes an `EvidenceError`, which the engine reports as a finding.
"""
