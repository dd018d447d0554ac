"""Windlass: gang-scheduled, fault-tolerant distributed training, from a laptop to a cluster.

The rooms and the one-way imports between them are drawn in docs/design/architecture.md.
"""

__version__ = "0.1.0"
