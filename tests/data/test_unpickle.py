"""Pickles are programs, and not to be trusted: nothing that one names is imported or called."""

import pickle
from pathlib import Path

import numpy as np
import pytest

from pickles import Evil, python2_batch, text
from soundsmooth.data.unpickle import unpickled

DATA = np.random.default_rng(0).integers(0, 256, (5, 6), np.uint8)


def test_what_python_2_wrote() -> None:
    held = unpickled(python2_batch(DATA, [3, 8, 0, 9, 5]))
    assert np.array_equal(held["data"], DATA)
    assert held["labels"] == [3, 8, 0, 9, 5]


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_what_python_3_writes(protocol: int) -> None:
    if protocol == 2:  # writes bytes by a function's name
        with pytest.raises(ValueError, match=r"_codecs\.encode, which no data set needs; this is refused"):
            unpickled(pickle.dumps({"data": DATA}, protocol))
    else:
        assert np.array_equal(unpickled(pickle.dumps({"data": DATA}, protocol))["data"], DATA)


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_malicious_pickle_is_refused(protocol: int, tmp_path: Path) -> None:
    held = pickle.dumps({b"data": Evil(tmp_path / "owned"), b"labels": [0]}, protocol)
    with pytest.raises(ValueError, match="refused"):
        unpickled(held)
    assert not (tmp_path / "owned").exists()
    pickle.loads(held)
    assert (tmp_path / "owned").exists()  # so the test can fail


@pytest.mark.parametrize("name", ["ndarray.tofile", "load", "memmap", "fromfile", "core.multiarray._reconstruct"])
def test_other_names_of_numpy_are_refused(name: str) -> None:
    asked = b"\x80\x04\x8c\x05numpy\x8c" + bytes([len(name)]) + name.encode() + b"\x93."
    with pytest.raises(ValueError, match="refused"):
        unpickled(asked)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"nothing",
        b"\x80\x02].",
        pickle.dumps(DATA, 4),
        pickle.dumps({"data": DATA.astype(np.int64)}, 4),
        pickle.dumps({"data": np.array([{}], object)}, 4),
        pickle.dumps({"data": np.asfortranarray(DATA)}, 4),
        python2_batch(DATA, [1])[:-3],
        python2_batch(DATA, [1]).replace(b"M\x05\x00", b"M\x06\x00", 1),  # another shape than there are bytes
        b"\x80\x02}r\x00\x00\x00\x01.",  # its part number 2²⁴, for which 256 MiB would be taken
        b"}p16777216\n.",
        b"\x80\x02}" + text("data") + b"cnumpy\nndarray\nK\x01bs.",  # a state for the class itself
        b"\x80\x02}" + text("data") + b"cnumpy\nndarray\n)RNbs.",
        b"\x80\x02}" + text("data") + b"cnumpy\nndarray\n)RK\x05bs.",
        b"\x80\x02})" + 200 * b"2\x86" + b"K\x01s.",  # a key of 2²⁰⁰ parts, all of which would be hashed
        b"\x80\x02}()" + 200 * b"2\x86" + b"K\x01u.",
        b"(" + b")" + 200 * b"2\x86" + b"K\x01d.",
        b"\x80\x04\x8f()" + 200 * b"2\x86" + b"\x90.",  # in a set
        b"\x80\x04()" + 200 * b"2\x86" + b"\x91.",
        b"\x80\x02})" + 3 * 10**5 * b"\x85" + b"K\x01s.",  # so deep that hashing it ends the process
        b"\x80\x05\x96" + (2**62).to_bytes(8, "little") + b".",  # more bytes than there is memory
    ],
)
def test_anything_else_is_an_error_of_one_line(content: bytes) -> None:
    with pytest.raises(ValueError, match="it is no pickle of plain arrays") as error:
        unpickled(content)
    assert "\n" not in str(error.value)
