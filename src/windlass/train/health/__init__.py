"""Whether a rank is well: who asked it to leave, when it last moved, what is slow, what is no number.

Belongs here: signals, heartbeats, verdicts on numbers (pure).
Does not belong here: what is done about it, which is agreed on in `step` and carried out in `run`.
"""
