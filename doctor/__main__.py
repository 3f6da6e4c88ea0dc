"""``python -m doctor``: the same as the ``doctor`` command."""

import sys

from doctor.cli import main

if __name__ == "__main__":
    sys.exit(main())
