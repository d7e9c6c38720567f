"""The operations' tests run the same examples on every machine; `HYPOTHESIS_PROFILE=search` looks for new ones."""

import os

from hypothesis import settings

settings.register_profile("steady", derandomize=True, deadline=None, database=None, print_blob=True, max_examples=12)
settings.register_profile("search", deadline=None, database=None, print_blob=True, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))
