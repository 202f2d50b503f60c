"""Lets torchvision be imported beside a torch for CPUs.

Its wheels are built for CUDA, and beside a torch for CPUs their compiled part cannot be loaded. Two operators are
missing then, and without them the import fails. No classifier calls them, so it is enough that they have names.
"""

from importlib import import_module

import torch

BOXES = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
LIBRARY = torch.library.Library("torchvision", "FRAGMENT")


def import_torchvision() -> None:
    """Import it if it is there, with the names of the two operators if it needs them."""
    try:
        import_module("torchvision")
    except ModuleNotFoundError:
        return  # the tests that need it are skipped
    except RuntimeError as error:
        if "torchvision::nms" not in str(error):
            raise
        for operator in ("nms", "qnms"):
            LIBRARY.define(operator + BOXES)
        import_module("torchvision")
