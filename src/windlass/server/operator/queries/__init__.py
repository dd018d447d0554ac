"""The operator's queries as an aggregated API of Kubernetes: the identity and the rights of a user, and the answers.

Belongs here: identities (`authentication`), rights (`authorization`), removal of other namespaces' names (`redaction`),
the port (`port`), paths (`app`) and answers (`leader_queries`).
Does not belong here: the content of answers (`server.service`).
"""
