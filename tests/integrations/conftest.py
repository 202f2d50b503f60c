"""These tests are collected only where they are asked for: `make test-integrations` sets the variable."""

import os

if os.environ.get("SOUNDSMOOTH_INTEGRATIONS") == "1":
    from integrations.stubs import import_torchvision

    import_torchvision()
else:
    collect_ignore_glob = ["test_*.py"]
