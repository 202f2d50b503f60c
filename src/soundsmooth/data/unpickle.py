"""Pickled arrays without pickle's dangers: nothing that a file names is ever imported or called.

A pickle is a program. This reader knows four names, those by which NumPy writes an array of bytes. In their place it
puts objects that only remember what they are told; the array is made afterwards, from what they remember.
"""

import io
import pickle
import pickletools
from functools import partial
from math import prod
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt


class _Remembered:
    """Stands for an array or its type: it keeps what it was made with, and does nothing."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments, self.state = arguments, None

    def __setstate__(self, state: Any) -> None:
        self.state = state


_NAMES = {
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
}


#: How opcodes are read, one step for each.
_STEPS: dict[int, Any] = dict(pickle._Unpickler.dispatch)


class _Reader(pickle._Unpickler):
    """The reader that is written in Python: there a step can be left out, or be looked at before it is taken.

    Keys are hashed, and of tuples in tuples that never ends, or ends the process. So do the members of sets; and
    bytearrays take memory for bytes that are not there. Data sets have none of these.
    """

    stack: list[Any]
    dispatch: ClassVar[dict[int, Any]] = dict(_STEPS)
    for _step in (pickle.EMPTY_SET, pickle.FROZENSET, pickle.ADDITEMS, pickle.BYTEARRAY8):
        del dispatch[_step[0]]

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _NAMES:
            raise ValueError(f"it wants to load {module}.{name}, which no data set needs; this is refused")
        return _Remembered

    def _with_plain_keys(self, step: int) -> None:
        """Put pairs into a dictionary: the one on top of the stack, or all above the last mark."""
        keys = self.stack[-2::2] if step == pickle.SETITEM[0] else self.stack[::2]
        if not all(type(key) in (bytes, str, int) for key in keys):
            raise ValueError("a name in it is no text")
        _STEPS[step](self)

    for _step in (pickle.SETITEM, pickle.SETITEMS, pickle.DICT):
        dispatch[_step[0]] = partial(_with_plain_keys, step=_step[0])


def _check_numbers(content: bytes) -> None:
    """A ValueError for a pickle that numbers its parts far beyond their number: no data set does."""
    for opcode, argument, _ in pickletools.genops(content):
        if opcode.name in ("PUT", "BINPUT", "LONG_BINPUT") and int(argument or 0) > len(content):
            raise ValueError("it numbers its parts beyond their number")


def unpickled(content: bytes) -> dict[str, Any]:
    """The dictionary in a pickle, with the arrays of bytes in it; a ValueError for everything else.

    Guarantee: no code runs and nothing is imported, whatever the content is. Values are arrays of bytes, or what
    pickle makes without a name: bytes, texts, numbers, lists, dictionaries.
    """
    try:
        _check_numbers(content)
        held = _Reader(io.BytesIO(content), encoding="bytes").load()
        if not isinstance(held, dict):
            raise ValueError("it is no dictionary")
        return {_text(name): _array(each) if isinstance(each, _Remembered) else each for name, each in held.items()}
    except Exception as error:  # pickle raises anything on a file that anybody may have written
        raise ValueError(
            f"it is no pickle of plain arrays: {str(error).splitlines()[0] if str(error) else error!r}"
        ) from None


def _text(name: Any) -> str:
    return name.decode("ascii") if isinstance(name, bytes) else str(name)


def _array(held: _Remembered) -> npt.NDArray[np.uint8]:
    """The array of bytes that NumPy would have made."""
    _, shape, kind, fortran, raw = held.state or (None,) * 5
    if not isinstance(kind, _Remembered) or kind.arguments[:1] not in ((b"u1",), ("u1",)):
        raise ValueError("an array in it is not of bytes")
    raw = raw.encode("latin-1") if isinstance(raw, str) else raw
    if fortran or not isinstance(raw, bytes) or not all(type(size) is int for size in shape) or len(raw) != prod(shape):
        raise ValueError("an array in it is not as it was written")
    return np.frombuffer(raw, np.uint8).reshape(shape)
