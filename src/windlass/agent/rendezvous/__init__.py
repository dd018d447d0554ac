"""Agreement of agents on the members of each generation: rendezvous, leader election, restarts.

Belongs here: the pure rules (`state_machine`), the agent that applies them (`leader`), and the three ways in which an
agent learns its memberships: alone (`leader.SingleNode`), from a leading agent (`multi_node`), or from a controller
over TCP (`controller_client`). On several nodes an agent leads with `leader_server`, `followers` and
`leader_announcement`, and follows with `follower` and `leader_search`; `endpoint` is the address at which they meet,
`roster` lists them. `connection` and `sockets` carry the messages, `authentication` proves their origin.
Does not belong here: the ranks themselves, which are `windlass.agent.ranks`.
"""
