"""The pure core: what a job is, how it lives, and who may start where.

Belongs here: data and decisions. A function of this package gets everything it needs as arguments,
`now` (integer milliseconds since the Unix epoch) included, and returns its decision as data.
Does not belong here: clocks, files, sockets, randomness, logging, threads, torch, Kubernetes.
Imports: the standard library and numpy, and nothing else of ours.
"""
