"""Warnings, at the line of the one who can do something about them."""

import sys
import warnings
from types import FrameType

_OURSELVES = __name__.partition(".")[0]


class IndependenceWarning(UserWarning):
    """The rows' independence is not proved: what is done instead, why, and what would give a proof."""


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line outside of this package, and of Python's own library, from which it was called."""
    frame = _users_frame(sys._getframe(1))
    place = frame.f_globals
    registry = place.setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, category, frame.f_code.co_filename, frame.f_lineno, place.get("__name__"), registry)


def _users_frame(frame: FrameType) -> FrameType:
    """The innermost frame of somebody else's code; the outermost of all if there is none, as in a thread of ours."""
    found = frame
    while _is_no_users(found) and found.f_back is not None:
        found = found.f_back
    return found


def _is_no_users(frame: FrameType) -> bool:
    module = str(frame.f_globals.get("__name__")).partition(".")[0]
    return module == _OURSELVES or module in sys.stdlib_module_names
