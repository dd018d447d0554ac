"""The job and the generation under which this process holds leases, from the variables of its ranks."""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Mapping

from windlass import wire
from windlass.train.checkpoint.store.lease import Holder
from windlass.train.checkpoint.store.process_identity import holder_of_process

_RUN_ID = "TORCHELASTIC_RUN_ID"
_RESTARTS = "TORCHELASTIC_RESTART_COUNT"
_NO_RUN_ID = ("", "none")
"""Values of `TORCHELASTIC_RUN_ID` that do not identify a run; "none" is torchrun's default."""
_UNNAMED_JOB = f"@{uuid.uuid4().hex[:8]}"
"""Id of this process's run where nothing names its job: what follows "@" is not shown to people."""


def identify_holder(environment: Mapping[str, str] = os.environ, *, job: str = "") -> Holder:
    """Return this process as the holder of a lease. `job`: the job's id where the variables name none."""
    restarts = environment.get(_RESTARTS, "0")
    generation = environment.get(wire.GENERATION) or str(int(restarts) + 1 if restarts.isdecimal() else 1)
    found = _job_id(environment) or job or _UNNAMED_JOB
    return holder_of_process(found, int(generation) if generation.isdecimal() else 1)


def _job_id(environment: Mapping[str, str]) -> str:
    """Return the id of the job; "" without any.

    It is made unique by the uid of its object, the daemon's state folder, or the secret of the gang, which agents make
    for a run on one node: an id that a person chooses may be submitted twice.
    """
    run = environment.get(_RUN_ID, "")
    job = environment.get(wire.JOB_ID) or ("" if run in _NO_RUN_ID else run)
    if uid := environment.get(wire.JOB_UID):
        return f"{job}@{uid}"
    secret = environment.get(wire.GANG_SECRET, "")
    lineage = environment.get(wire.STATE_ID) or (hashlib.sha256(secret.encode()).hexdigest()[:8] if secret else "")
    return f"{job}@{lineage}" if job and lineage else job
