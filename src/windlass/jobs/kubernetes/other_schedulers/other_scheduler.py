"""The schedulers of others for which manifests are rendered."""

from __future__ import annotations

from enum import StrEnum


class OtherScheduler(StrEnum):
    """A scheduler, or the set of controllers that starts the gang there."""

    KUEUE = "kueue"
    VOLCANO = "volcano"
    COSCHEDULING = "coscheduling"
    NATIVE = "native"
    """The gangs of kube-scheduler itself, an alpha API of Kubernetes 1.36."""
    JOBSET = "jobset"
