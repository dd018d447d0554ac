"""Where jobs really run: one adapter per kind of place, all behind the port in `worlds.port`.

Belongs here: carrying out commands and reporting events. Does not belong here: decisions.
The adapters never import one another.
"""
