"""Limits on what a machine is asked for: threads, and seconds to wait. Checked before anything is made or started."""

from typing import SupportsIndex

from .integers import integer

MOST_THREADS = 1024
MOST_SECONDS = 10**6


def thread_count(threads: SupportsIndex | None) -> int | None:
    """A number of threads as Python's int, None for as many as there are cores; a ValueError for any other.

    Guarantee: between 1 and 1024. Whoever starts threads takes their number from here, so that nobody's text, a
    promise's for example, starts more.
    """
    if threads is None:
        return None
    count = integer(threads, "threads")
    if not 1 <= count <= MOST_THREADS:
        raise ValueError(f"threads must be between 1 and {MOST_THREADS}, not {count}")
    return count


def seconds(timeout: float) -> float:
    """A number of seconds after which one that hangs is ended; a ValueError for none, for too many and for NaN."""
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout <= MOST_SECONDS:
        raise ValueError(f"timeout must be a positive number of seconds, at most {MOST_SECONDS}, not {timeout!r}")
    return timeout
