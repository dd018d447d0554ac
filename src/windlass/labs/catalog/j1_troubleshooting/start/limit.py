"""A limit on the memory of this process. This file needs no change."""

import resource
from pathlib import Path


def limit_memory(mib):
    """Allow this many MiB of data more than the process has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[5])
    limit = pages * resource.getpagesize() + (mib << 20)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
