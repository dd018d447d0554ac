"""The dashboard of a cluster: the pages of `server.dashboard` on a port of the operator, for users of the cluster.

Belongs here: sign-in by identity (`identity_door`, `trusted_proxy`, `user_sessions`), what a user may see and change
(`cluster_pages`), records of the cluster that pages show (`cluster_sources`), and the port (`port`).
Does not belong here: the pages and their views (`server.dashboard`), reviews of tokens and rights (`operator.queries`).
"""
