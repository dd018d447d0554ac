"""Seeded fault schedules on a real API server, judged by a witness that reads only the API.

`schedule`       draws the faults and the arrivals of one schedule from its seed
`load`           creates gangs of every kind that Windlass takes
`faults`         carries out one planned fault
`cluster_view`   the cluster as the witness has observed it
`rules`          rules that must hold at once, after a window, and at the end
`judge`          applies the rules to a sequence of observations
`observer`       lists and watches the API, and hands each observation to the judge
`campaign`       runs one schedule and reports its violations

`cluster_view`, `rules`, `judge` and `observer` import nothing of Windlass: the witness does not share its decisions.
"""
