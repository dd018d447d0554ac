"""Agreement of agents on the members of each generation: rendezvous, leader election, restarts.

Belongs here: the pure rules (`state_machine`), the agent that applies them (`leader`), and the three ways in which an
agent learns its memberships: alone (`single_node`), from a leading agent (`multi_node`, `leader_search`), or from a
controller over TCP (`controller_client`). `connection` and `sockets` carry the messages.
Does not belong here: the ranks themselves, which are `windlass.agent.ranks`.
"""
