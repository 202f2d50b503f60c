"""What a child closes before it gets its row, and how it gets it (see tests/independence/test_measure_attacks.py)."""

import ctypes
import os
import sys

import pytest

from soundsmooth.models.row_process import _close_all_but, _fill, _gaps

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="rows are voted alone in forked processes")

#: A call that Linux does not have.
NO_CALL = (ctypes.c_long(-1),)


def still_open(kept: tuple[int, ...], gaps: list[tuple[object, ...]]) -> list[int]:
    """Which descriptors above 2 are open in a child that has closed all but these."""
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        try:
            listed = os.dup2(theirs, 100)
            _close_all_but((*kept, listed), gaps)
            found = []
            for each in range(3, 200):
                try:
                    os.fstat(each)
                except OSError:
                    continue
                found.append(each)
            os.write(listed, repr(found).encode())
        finally:
            os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as answer:
        text = answer.read().decode()
    os.waitpid(child, 0)
    return [int(each) for each in text.strip("[]").split(",")]


@pytest.mark.parametrize("kept", [(3,), (150,), (3, 4), (4, 3), (3, 150), (149, 150)])
@pytest.mark.parametrize("at_once", [True, False])
def test_nothing_stays_open_but_what_is_kept(kept: tuple[int, ...], at_once: bool) -> None:
    if at_once and sys.platform != "linux":
        pytest.skip("only Linux closes many at once")
    null = os.open(os.devnull, os.O_RDONLY)
    places = [each for each in {*kept, 50, 151, 180} if not _is_open(each)]
    try:
        for each in places:
            os.dup2(null, each)
        gaps = _gaps((*kept, 100)) if at_once else [NO_CALL]
        assert still_open(kept, gaps) == sorted({*kept, 100})
    finally:
        for each in {null, *places}:
            os.close(each)


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def test_a_room_is_filled_by_as_many_reads_as_it_takes() -> None:
    ours, theirs = os.pipe()
    room = bytearray(5)
    os.write(theirs, b"abc")
    os.write(theirs, b"def")
    _fill(memoryview(room), ours)
    assert room == b"abcde"
    os.close(theirs)
    with pytest.raises(EOFError):
        _fill(memoryview(room), ours)
    os.close(ours)
