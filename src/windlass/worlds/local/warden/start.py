"""What `python -I -S` is given: finds its own package without the rest of Windlass, so that its compiled form is used."""

import os
import sys

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from warden.guard import main  # noqa: E402 - the line above makes it findable

main()
