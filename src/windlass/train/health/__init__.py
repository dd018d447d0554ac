"""Signs of trouble on a rank: stop signals, failure reports of peers, and loss spikes.

Belongs here: signals, failure reports, and checks of the loss (pure). Does not belong here: the reaction, which `step`
agrees on and `run` carries out.
"""
