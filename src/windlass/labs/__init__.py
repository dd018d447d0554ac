"""The workshop: labs that run and check themselves, their progress, quizzes and concept cards.

Belongs here: the catalog of labs, and the engine that starts, checks, plays and resets them. A lab is a folder below
`catalog`: text, hints, broken state, check, solution, other ways and mistakes. Does not belong here: what a lab
teaches, which is done by the packages below, and the printing of the verb `windlass lab`.
"""
