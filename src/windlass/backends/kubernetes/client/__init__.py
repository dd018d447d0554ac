"""One connection to a Kubernetes API server: requests, retries, lists and watches.

Belongs here: where the API server is and as whom it is asked, what may be sent again after which trouble, lists and
watches without gaps, and the objects that a scheduler reads, as small structs. Does not belong here: what an object
means, and what to write (the world); manifests (`jobs.kubernetes`).

Public names, by module; each says more:
- `access`: where and as whom: `find(on) -> Access`, `from_kubeconfig(path, context)`, `in_cluster()`, `AccessError`,
  `plain(server)`; its parts are `identity`, `kubeconfig`, `service_account`, `keyring`, and `library`, which loads the
  configuration of kubernetes_asyncio alone
- `resources`: `Resource`, a row for each kind, `path(resource, namespace, name, subresource)`
- `connection`: `Connection(access, may_write=…, limit=…)`: `get`, `create`, `replace`, `patch`, `delete`, `list`,
  `listed`, `bind`, `evict`, `request`
- `refusals`: `ApiError` (with `is_conflict`, `is_gone`, …), `Unreachable`, `NotLeader`, `Outcome`
- `retrying`: which request may be sent again, and when
- `reflector`: `reflect(connection, resource, decode=…, apply=…, synced=…, fresh=…)`: list and watch for ever
- `fresh`: `Fresh`: the objects that a reflector holds, `.put(reply)` after an own write; `Change(kind, object, before)`
- `mirror`, `watch`: the parts of a reflector: what it knows, and one watch
- `objects`: structs and their decoders: `pod`, `node`, `namespace`, `claim`, `volume`, `priority_class`, `lease`
"""
