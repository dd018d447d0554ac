"""A Kubernetes cluster as the verbs see it: the calls of `server.client.Client`, asked of the operator and of objects.

Belongs here: finding the operator, writing jobs as objects under the user's own rights, following them, their pods'
logs, and commands inside of them. Does not belong here: how requests are made (`worlds.kubernetes.client`), what a job
becomes (`jobs.kubernetes`), and anything that a verb prints (the verbs' own modules).

- `cluster`: `Cluster`, what the verbs call
- `reach`: the API server, asked by a process that waits for its answers
- `operator`: whoever leads, by its Lease, and its API
- `naming`: what people call jobs here, and which objects they mean
- `states`: jobs as their objects tell
"""
