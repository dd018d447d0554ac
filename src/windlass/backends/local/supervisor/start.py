"""What `python -I -S` is given: it finds this package, in its compiled form, without the rest of Windlass."""

import os
import sys

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from supervisor.watchdog import main  # type: ignore[import-not-found]  # found by the line above

main()
os._exit(0)  # there is nothing to tidy up, and a controller waits
