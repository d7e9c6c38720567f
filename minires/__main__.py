"""`python -m minires` is the `minires` command."""

import sys

from minires.cli import main

sys.exit(main())
