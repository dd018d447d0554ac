"""Faults on a real API server, and what must be true after each of them.

`jobs` makes what is handed in, `replicas` are operators that can be killed, `witness` sees every moment of it, and
`truth` says what is wrong when it is quiet. Inside belong tests that break something; what is fine when nothing breaks
is tested elsewhere.
"""
