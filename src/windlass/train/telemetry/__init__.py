"""What a step costs and where its time goes: measured on each rank, told by the first.

Belongs here: clocks around the phases of a step, FLOPs and their share of what the device could do, words and messages.
Does not belong here: verdicts on what is measured (`health`).
"""
