"""Our own labels and annotations, on objects of our kinds and on their pods."""

from __future__ import annotations

OURS = "windlass.dev/"
JOB_NAME = f"{OURS}job-name"
ROLE = f"{OURS}role"
REPLICA_INDEX = f"{OURS}replica-index"
GENERATION = f"{OURS}generation"
GANG = f"{OURS}gang"
"""On pods that others make: all of a namespace with the same value are one gang."""
ARRAY = f"{OURS}array"
"""Which array a job is one of; then its index, and how many may run at a time (0: all)."""
ARRAY_INDEX = f"{OURS}array-index"
ARRAY_LIMIT = f"{OURS}array-limit"
USER = f"{OURS}user"
"""An annotation: who handed the job in, as the command line says."""
