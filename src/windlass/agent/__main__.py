"""Runs the agent for `python -m windlass.agent`."""

import sys

from windlass.agent.entry import main

sys.exit(main(sys.argv[1:]))
