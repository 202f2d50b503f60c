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
    aligned = {(at,): [["tt.divisibility", 16]] for at, kind in enumerate(signature.values()) if kind[0] == "*"}
    made = compile(ASTSource(kernel, signature, places, aligned), target=GPUTarget("cuda", 90, 32))
    return made.asm["ptx"]

for dimension, channels, many in ((48, 1, False), (48, 1, True), (50, 1, False), (50, 1, True), (48, 3, True)):
    whole = dimension % 16 == 0
    shape = {"dimension": dimension, "channels": channels, "reach": 300, "bits": 8, "start": 999}
    shape |= {"whole": whole, "many": many}
    values = TYPES | {"values": "*i16", "out": "*i16"}
    assert compiled(kernels.settle, values, shape)
    made = compiled(kernels.noisy, values | {"out": "*i64" if whole else "*i16"}, shape | {"size": 16})
    assert ("st.global.v2.b64" in made) == whole  # two words at a time
print("compiled")
"""


@pytest.mark.slow("compiles ten kernels")
def test_the_kernels_compile_for_a_gpu() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    ran = subprocess.run([sys.executable, "-c", COMPILE], env=environment, capture_output=True, text=True, check=False)
    assert ran.stdout == "compiled\n", ran.stderr
