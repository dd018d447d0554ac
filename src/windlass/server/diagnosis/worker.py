"""The process that diagnoses one attempt: a request on stdin, the verdict on stdout, both JSON.

A process of its own keeps the work away from the controller's loop, and the limits of the operating system hold for
it: CPU time, memory, and the priority below all else on the machine.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys

import msgspec

from windlass.diagnose.failures.engine import diagnose
from windlass.server.diagnosis.attempt_verdict import verdict_of
from windlass.server.diagnosis.evidence_request import EvidenceRequest

_NICENESS = 10


def main() -> None:
    """Reads a request, and prints the verdict."""
    memory, seconds = (int(word) for word in sys.argv[1:3])
    os.nice(_NICENESS)
    for kind, limit in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CPU, seconds), (resource.RLIMIT_CORE, 0)):
        with contextlib.suppress(ValueError):  # a lower limit holds already
            resource.setrlimit(kind, (limit, limit))
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=EvidenceRequest)
    sys.stdout.buffer.write(msgspec.json.encode(verdict_of(request, diagnose)))


if __name__ == "__main__":
    main()
