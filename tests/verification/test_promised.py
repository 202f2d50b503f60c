"""What an auditor is told of data that is not the promised one."""

from types import SimpleNamespace
from typing import Any

from soundsmooth.verification.promised import data_check


def test_images_of_another_shape_are_wrong_and_name_the_options() -> None:
    inputs: Any = SimpleNamespace(labels=[3], indices=[0], shape=(3, 48, 40))
    promise: Any = SimpleNamespace(values={"input shape": "3 32 32"})
    check = data_check(inputs, inputs, promise)
    assert check.passed is False
    assert check.text == (
        "the images have shape 3 48 40, promised was 3 32 32; give --resize, --crop and --layout as for the run"
    )
