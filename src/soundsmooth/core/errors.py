"""Errors of somebody else's code, in one line."""


def first_line(error: BaseException) -> str:
    """The first line of an error's text, for errors of one line."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def describe_error(error: BaseException) -> str:
    """The kind of an error and the first line of its text: what somebody else's code raised."""
    return f"{type(error).__name__}: {first_line(error)}"
