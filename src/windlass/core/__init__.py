"""The pure core: the job, its lifecycle, and the decisions on which gang starts on which nodes.

Belongs here: data and decisions. A function of this package gets everything it needs as arguments,
`now` (integer milliseconds since the Unix epoch) included, and returns its decision as data.
Does not belong here: clocks, files, sockets, randomness, logging, threads, torch, Kubernetes.
Imports: the standard library and numpy, and no other package of Windlass.
"""
