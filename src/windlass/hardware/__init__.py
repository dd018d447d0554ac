"""Hardware facts, and the planners that use them: sizes of training runs, sharing of GPUs, networks of jobs.

Belongs here: tables of GPUs, cloud instances and network adapters with their sources (`facts`); estimates of memory,
step time and mesh (`training`); choice of whole GPUs, MIG, MPS and time-slicing (`sharing`); network profiles of pods
(`network`). Does not belong here: decisions of the scheduler (`core`), a second table of what
`core.model.mig` or `train.telemetry.flops` already states.

Importing this package loads nothing; torch is imported only by the functions that trace a module.
"""
