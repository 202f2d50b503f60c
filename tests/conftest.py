"""Hypothesis looks for new counter-examples on a developer's machine, and checks the same examples in CI."""

import os

from hypothesis import settings

settings.register_profile("search", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "search")
