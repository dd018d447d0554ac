"""Agents in pods: the operator coordinates their rendezvous, receives their reports, and publishes them.

- connections: `agent_server` accepts them with TLS (`tls_stream`), `messages` validates what arrives, `agent_registry`
  identifies each agent by its pod's token and address (`pod_tokens`) and finds its gang
- one gang's run: `gang_agents` passes reports to the core, the status (`progress`) and the events
- its rendezvous: `rendezvous`, with `connected_agents`, `generation_state` and `hang_monitor`, by the rules of an agent
  that leads (`windlass.agent.rendezvous.state_machine` and `windlass.agent.hang_detection`, which are pure)

Does not belong here: starting or watching ranks, which is the agent's; the cost of a failure, which is the core's.

No state is stored: agents know which generation they run, and report it when they connect again.
"""
