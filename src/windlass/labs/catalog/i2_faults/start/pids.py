"""Prints the processes of a running job: python pids.py JOB [agent|rank NUMBER]

A node has one agent, which starts the ranks of its node. With a word and a number only that process id is printed.
This file needs no change.
"""

import json
import subprocess
import sys


def read(*words):
    out = subprocess.run(["windlass", *words, "-o", "json"], capture_output=True, text=True, check=False).stdout
    return json.loads(out or '{}')


job = sys.argv[1]
tasks = read("status", job).get("tasks", [])
newest = max((task["generation"] for task in tasks), default=0)
agents = {task["rank"]: (task["node"], task["pid"]) for task in tasks if task["generation"] == newest}
ranks = {sign["rank"]: sign["pid"] for sign in (read("doctor", job).get("job") or {}).get("ranks", [])}
if len(sys.argv) == 4:
    number = int(sys.argv[3])
    found = agents[number][1] if sys.argv[2] == "agent" else ranks.get(number)
    print(found or sys.exit(f"{job} has no rank {number} that runs: wait for its first lines, or submit it again"))
else:
    for number, (node, agent) in sorted(agents.items()):
        print(f"node {node}: agent {agent}, rank {number} {ranks.get(number, 'not started yet')}")
