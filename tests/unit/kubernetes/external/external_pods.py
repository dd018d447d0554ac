"""External pods, as the client decodes them."""

import json

from windlass.backends.kubernetes.client import objects


def pod(name, gpus=1, *, node="", phase="Pending", labels=(), annotations=(), reason="", leaving=False, **spec):
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    about = {
        "name": name,
        "namespace": "team",
        "uid": f"uid-{name}",
        "resourceVersion": "1",
        "labels": dict(labels),
        "annotations": dict(annotations),
        "creationTimestamp": "2026-11-21T20:00:00Z",
        **({"deletionTimestamp": "2026-11-21T20:01:00Z"} if leaving else {}),
    }
    whole = {"schedulerName": "windlass", "nodeName": node, "containers": [container], **spec}
    status = {"phase": phase, "reason": reason}
    return objects.pod(json.dumps({"metadata": about, "spec": whole, "status": status}))
