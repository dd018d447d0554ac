"""Agents in pods: the operator publishes their memberships, hears how ranks do, and tells it in status and events.

Belongs here: the port that agents call (`hub`), what they say and whether it makes sense (`messages`), who leads the
agents of one gang (`meeting`, by the very rules of an agent that leads: `windlass.agent.rendezvous.state_machine` and
`windlass.agent.hang_detection`, which are pure), which pods these are and what of it the gang's object says
(`attendance`, `progress`), and by what a pod proves which one it is (`tokens`).
Does not belong here: starting or watching ranks, which is the agent's; what a failure costs, which is the core's.

Nothing of it is kept anywhere: agents know what they run, and say so when they call again.
"""
