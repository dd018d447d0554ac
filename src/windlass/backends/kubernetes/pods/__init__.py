"""Pod execution: pods and dependent objects are created, bound to nodes, observed and deleted."""
