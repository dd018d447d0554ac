"""The fork server (zygote): a process that has imported torch once and forks ranks from itself.

Belongs here: the agent's end (`client`), the frames between both (`frames`), and all that runs in the other process
(`server`, `child`, `thread_pool`, `orphans`, `script`, `prctl`). Does not belong here: which ranks there are, and what
follows their ends.
"""
