"""The data of decisions: jobs, gangs, nodes, queues, policies, snapshots, plans.

Belongs here: frozen values and their arithmetic. Does not belong here: any choice between nodes, queues or gangs.
"""
