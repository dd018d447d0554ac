"""Plans a training run before it exists: memory by part, mesh, micro-batch, recomputation, step time and cost.

Belongs here: estimates from the sizes of a model, of which each assumption is named in the plan. Does not belong here:
the candidate meshes, which `train.mesh.auto_mesh` states for this package and for `mesh="auto"`; measured utilisation
(`train.telemetry`).
"""
