"""The operator: a controller on a Kubernetes cluster, elected among replicas, with its API, metrics and history.

Belongs here: what one process of it does from its start to its end (`running`), who leads (`election`, `ruling`), what
it tells over HTTP, and what it keeps of jobs whose objects are gone. Does not belong here: how objects become jobs and
decisions become pods (`worlds.kubernetes`), what is installed into a cluster (`deploy`).
"""
