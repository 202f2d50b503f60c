"""The bytes of promises are those of the golden files: whoever holds a commitment can still check it."""

import hashlib
from typing import Any

import pytest

from golden.surface import command, filled, golden, torch_version

PROMISES = golden("promises.json")
#: What may follow torch's version: the digest of a module, its kernels, what is proved of it.
OF_TORCH = ("model", "flags", "independence")


def fields(lines: list[str]) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in lines[1:])


@pytest.mark.parametrize("case", PROMISES["promises"], ids=lambda case: case["name"])
def test_promise_and_commitment_are_the_golden_ones(case: dict[str, Any]) -> None:
    done = command("commit", *filled(case["arguments"]))
    assert done.code == 0, done.stderr
    lines = done.stdout.splitlines()
    assert done.stdout == "".join(f"{line}\n" for line in lines)
    commitment = hashlib.sha256(done.stdout.encode("ascii")).hexdigest()
    assert commitment in done.stderr
    exact = fields(case["promise"])["model kind"] != "torch" or torch_version() == PROMISES["torch"]
    assert lines[0] == case["promise"][0]
    now, then = fields(lines), fields(case["promise"])
    assert list(now) == list(then)
    assert {name for name in now if now[name] != then[name]} <= set(() if exact else OF_TORCH)
    assert not exact or (lines, commitment) == (case["promise"], case["commitment"])
