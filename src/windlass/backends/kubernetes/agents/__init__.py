"""Agents in pods: the operator coordinates their rendezvous, receives their reports, and publishes them.

Belongs here: the port that agents connect to (`hub`), the validation of their messages (`messages`), the rendezvous of
one gang's agents (`rendezvous`, by the rules of an agent that leads: `windlass.agent.rendezvous.state_machine` and
`windlass.agent.hang_detection`, which are pure), the gangs and pods that agents belong to and the status of these gangs
(`agent_registry`, `progress`), and the tokens by which a pod proves its identity (`tokens`).
Does not belong here: starting or watching ranks, which is the agent's; the cost of a failure, which is the core's.

No state is stored: agents know what they run, and report it when they connect again.
"""
