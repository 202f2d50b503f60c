"""Triton compiles the kernels for a GPU, also where there is none: the interpreter takes more than the compiler."""

import os
import subprocess
import sys

import pytest

#: For an H100, in a process without the interpreter: requests alone and together, of whole blocks and of others.
COMPILE = """
from triton import compile
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from soundsmooth.noise import kernels

WORDS = [*kernels.KEY, "capacity", "total", "counter", "word13", "skipped", "count", "first0", "first1", "purpose"]
TYPES = {name: "i32" for name in WORDS} | {"x": "*i32", "undecided": "*i32", "upper": "*i32"}
TYPES |= {name: "*i64" for name in ("guide", "runs", "parts", "lower")}

def compiled(kernel, types, constants):
    signature = {name: "constexpr" if name in constants else types[name] for name in kernel.arg_names}
    places = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
    made = compile(ASTSource(kernel, signature, places), target=GPUTarget("cuda", 90, 32))
    return len(made.asm["ptx"])

for dimension, whole in ((48, True), (50, False)):
    for many in (False, True):
        shape = {"dimension": dimension, "channels": 1, "reach": 300, "bits": 8, "start": 999}
        shape |= {"whole": whole, "many": many}
        values = TYPES | {"values": "*i16", "out": "*i16"}
        assert compiled(kernels.settle, values, shape)
        assert compiled(kernels.noisy, values | {"out": "*i64" if whole else "*i16"}, shape | {"size": 16})
print("compiled")
"""


@pytest.mark.slow("compiles eight kernels")
def test_the_kernels_compile_for_a_gpu() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    ran = subprocess.run([sys.executable, "-c", COMPILE], env=environment, capture_output=True, text=True, check=False)
    assert ran.stdout == "compiled\n", ran.stderr
