"""The process that diagnoses one attempt: a request on stdin, the verdict on stdout, both JSON.

With `--evidence` as its last argument it prints the whole diagnosis instead, with the lines that prove the cause.

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
from windlass.server.diagnosis.attempt_verdict import diagnosis_of, verdict_of
from windlass.server.diagnosis.evidence_request import EvidenceRequest

_EVIDENCE = "--evidence"
_NICENESS = 10


def main() -> None:
    """Reads a request, and prints the verdict."""
    memory, seconds = (int(word) for word in sys.argv[1:3])
    os.nice(_NICENESS)
    for kind, limit in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CPU, seconds), (resource.RLIMIT_CORE, 0)):
        with contextlib.suppress(ValueError):  # a lower limit holds already
            resource.setrlimit(kind, (limit, limit))
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=EvidenceRequest)
    answer = diagnosis_of(request, diagnose) if sys.argv[-1] == _EVIDENCE else verdict_of(request, diagnose)
    sys.stdout.buffer.write(msgspec.json.encode(answer))


if __name__ == "__main__":
    main()
