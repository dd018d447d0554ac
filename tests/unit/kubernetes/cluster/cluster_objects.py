"""API objects from YAML, as the client decodes them."""

import json

import yaml

from windlass.backends.kubernetes.client import objects


def metadata(name, written=None, namespace="default"):
    return {"uid": f"{name}-uid", "resourceVersion": "1", "namespace": namespace, "name": name, **(written or {})}


def pod(name, spec, phase="Running", **meta):
    whole = {"metadata": metadata(name, meta), "spec": yaml.safe_load(spec), "status": {"phase": phase}}
    return objects.pod(json.dumps(whole))


def node(name, allocatable, labels="{}", taints="[]", ready="True", *, unschedulable=False, **meta):
    conditions = [{"type": "Ready", "status": ready}] if ready else []
    return objects.node(
        json.dumps(
            {
                "metadata": metadata(name, {"labels": yaml.safe_load(labels), **meta}, ""),
                "spec": {"taints": yaml.safe_load(taints), "unschedulable": unschedulable},
                "status": {"allocatable": yaml.safe_load(allocatable), "conditions": conditions},
            }
        )
    )


def claim(name, spec="{}", phase="Bound", **meta):
    whole = {"metadata": metadata(name, meta), "spec": yaml.safe_load(spec), "status": {"phase": phase}}
    return objects.claim(json.dumps(whole))


def volume(name, *terms):
    """`terms`: {label: values}."""
    written = [
        {"matchExpressions": [{"key": key, "operator": "In", "values": values} for key, values in term.items()]}
        for term in terms
    ]
    spec = {"nodeAffinity": {"required": {"nodeSelectorTerms": written}}} if terms else {}
    return objects.volume(json.dumps({"metadata": metadata(name), "spec": spec}))
