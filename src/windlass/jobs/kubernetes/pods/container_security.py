"""Security context of containers that Windlass adds to the pods of jobs: the pod security standard `restricted`."""

from __future__ import annotations

from typing import Any

UNPRIVILEGED: dict[str, Any] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""For images whose user is not known: what the standard asks for, except `runAsNonRoot`."""
USER_ID = 65_532
"""User of the operator's image, unprivileged in any other."""
RESTRICTED: dict[str, Any] = {
    **UNPRIVILEGED,
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "runAsUser": USER_ID,
}
"""For images that run as any user."""
