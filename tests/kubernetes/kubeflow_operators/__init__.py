"""Kubeflow's operators as a measure: what they did with a manifest is recorded, and ours must do the same.

`kinds` and `cases` are the manifests and what happens to their pods; `observation` watches a cluster and describes the
outcome of a case; `play` runs cases on a control plane with an operator; `recorded/` holds what training-operator 1.9.0
and mpi-operator 0.8.2 did (`record` makes it); `differences` names what is meant to be different, with its reason.
"""
