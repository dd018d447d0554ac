"""The client of a Kubernetes API server: requests, retries, lists and watches.

Belongs here: access to the API server, rules for retries, gapless lists and watches, limits on requests, and the
objects that a scheduler reads, as small structs. Does not belong here: the meaning of objects and the choice of
writes, which are the rest of `backends.kubernetes`; manifests (`jobs.kubernetes`).

- `access`: `find(on) -> Access`; its parts are `identity`, `credentials`, `kubeconfig`, `service_account`, and
  `config_library`, which loads the configuration of kubernetes_asyncio alone
- `connection`: `Connection`, every verb; over `transport` (one attempt), `retries`, `paging`, `request_counters`
- `api_errors`: `ApiError`, `Unreachable`, `NotLeader`, `Outcome`
- `reflector`: list and watch a resource; over `mirror`, `watch` and `object_cache`
- `coalescing_writer`, `priority_limiter`, `persistent_request`, `background_tasks`: when requests are sent
- `reviews`: the user of a token, the rights of a user, the caller's own
- `resources`, `objects`, `object_reference`, `owners`, `channels`: kinds, structs, identities, commands in pods
"""
