"""Faults on a real API server, and the invariants that hold after each of them.

`jobs` makes the submitted objects, `replicas` are operators that can be killed, `witness` observes every change, and
`violations` checks the settled cluster. Belongs here: tests with a fault. Behaviour without faults is tested elsewhere.
"""
