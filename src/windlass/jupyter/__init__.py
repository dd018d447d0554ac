"""The program that serves a notebook: JupyterLab in the one member of a gang.

Belongs here: the folder of a notebook, its first notebook, checkpoints of its workspace, and the rule of idleness. Of
ours it imports only `windlass.wire`, so that it starts quickly in any image that has Windlass and JupyterLab.
"""
