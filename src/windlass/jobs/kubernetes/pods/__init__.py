"""Pods made from templates, and the requests and constraints that the core reads from a template.

- `pod_assembly`, `strategic_merge`: a pod from its template; `trainingjob_template`: the template of our own kind
- `pod_requests`, `quantities`, `pod_placement`, `anti_affinity`: requests and placement constraints for the core
- `code_archive`, `call_secret`: code and arguments shipped with a job; `agent_pods`: pods whose ranks an agent starts

Used by `jobs.kubernetes.kinds`; the backend creates and binds the pods.
"""
