"""What an auditor is told of data that is not the promised one."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import soundsmooth as ss
from soundsmooth.verification.promised import check_words, data_check, machine_differences


def test_images_of_another_shape_are_wrong_and_name_the_options() -> None:
    inputs: Any = SimpleNamespace(labels=[3], indices=[0], shape=(3, 48, 40))
    promise: Any = SimpleNamespace(values={"input shape": "3 32 32"})
    check = data_check(inputs.labels, inputs, promise)
    assert check.passed is False
    assert check.text == (
        "the images have shape 3 48 40, promised was 3 32 32; give --resize, --crop and --layout as for the run"
    )


def promised(flags: str) -> dict[str, str]:
    """What a torch run promises, with these flags beside the usual ones."""
    smooth = ss.Smoother(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2)), "1/4", threads=1)
    promise = smooth.commit(np.zeros((1, 1, 2, 2), np.uint8), n=20, n0=5, seed="words")
    words = dict(word.split("=") for word in f"{promise.values['flags']} {flags}".split(" ") if word)
    return {**promise.values, "flags": " ".join(f"{name}={words[name]}" for name in sorted(words) if words[name])}


ARTIFACT = "artifact=" + "ab" * 32


@pytest.mark.parametrize(
    "flags", ["", "compile=torch-compile", f"compile=tuned {ARTIFACT}", "graph=shortened", "runs="]
)
def test_words_that_this_version_promises(flags: str) -> None:
    check_words(promised(flags))


@pytest.mark.parametrize(
    "flags",
    [
        ARTIFACT,
        f"compile=torch-compile {ARTIFACT}",
        "compile=tuned",
        "compile=tuned artifact=no",
        f"compile=tuned {ARTIFACT.upper()}",
        "compile=auto",
        f"compile=tuned {ARTIFACT} runs=module",
        f"compile=tuned {ARTIFACT} runs=",
        "graph=shortened runs=module",
        "graph=shortened runs=",
        "graph=longer",
    ],
)
def test_a_hash_of_kernels_goes_with_tuned_ones(flags: str) -> None:
    """Otherwise a hash that nobody can check would make every machine another one, and excuse every difference."""
    with pytest.raises(
        ValueError, match=r"the promise has (a flag that this version does not know|the flag (artifact|graph))"
    ):
        check_words(promised(flags))


def test_what_differs_without_trust_is_one_thing() -> None:
    """Kernels that were not loaded, and not also how the model ran."""
    promise: Any = SimpleNamespace(
        values={"device": "cpu"}, flags={"compile": "tuned", "artifact": "ab" * 32, "threads": "2"}
    )
    identity: Any = SimpleNamespace(device="cpu", flags={"compile": "none", "threads": "2"})
    assert machine_differences(identity, promise) == ["tuned kernels -> none, as --trust-artifact was not given"]
    identity.flags["threads"] = "1"
    assert len(machine_differences(identity, promise)) == 2
    trusted: Any = SimpleNamespace(device="cpu", flags=dict(promise.flags))
    assert machine_differences(trusted, promise) == []
