"""Entry point for `python -I -S`: finds this package, compiled, without the rest of Windlass."""

import os
import sys

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from supervisor.watchdog import main  # type: ignore[import-not-found]  # found by the line above

main()
os._exit(0)  # skips the interpreter's shutdown, since a controller waits
