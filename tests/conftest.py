"""Hypothesis looks for new counter-examples on a developer's machine, and checks the same examples in CI.

The Triton kernels run on the GPU if there is one (NVIDIA's or AMD's), and in Triton's interpreter elsewhere.
"""

import os
from pathlib import Path

from hypothesis import settings

if not any(Path(device).exists() for device in ("/dev/nvidiactl", "/dev/kfd")):
    os.environ["TRITON_INTERPRET"] = "1"  # before anything imports Triton

settings.register_profile("search", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "search")
