"""The sampler on a GPU: the noise of the specification, made where the model reads it."""

from collections.abc import Sequence
from contextlib import nullcontext
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..core.grid import Levels
from ..core.machine import InputPlacement, check_memory, refuse_beyond
from .keystream import Keystream, check_room
from .law import Law
from .log_guide import CrowdedError, first_bucket, log_guide
from .sampler import Noise, Noisy, Sampler

if TYPE_CHECKING:
    import torch

WARPS, RUNS = 4, 128
#: Elements of a stream whose blocks share a chunk: one run of ChaCha20's block counter.
CHUNK = 1 << 36
#: Room for the undecided elements of a request: this many, and four times their mean.
FEW_UNDECIDED, TIMES_THE_MEAN = 256, 4
SIGN = 1 << 31
#: As many inputs are kept on the GPU as have so many coordinates together: 16 MB, some 1300 images of CIFAR-10. A small
#: input counts as one that fills the least memory that torch gives.
KEPT_INPUTS, LEAST_INPUT = 1 << 22, 128


class Request(NamedTuple):
    """Noisy copies of one input that are wanted: the copies first, …, first + copies − 1 of a stream."""

    bits: Keystream
    x: Levels
    first: int
    copies: int

    @property
    def element(self) -> int:
        """The first one in the stream."""
        return self.first * self.x.size

    @property
    def total(self) -> int:
        return self.copies * self.x.size

    def programs(self, elements: int) -> int:
        """How many programs of so many elements it takes, from the block of the first element on."""
        return -(-(self.total + self.element % 16) // elements)


class GpuSampler:
    """Draws from a law on the GPU, straight into the layout and precision that the model wants.

    Guarantee: element for element the values of `Sampler`, cast once to the placement's precision (float32 rounded to
    nearest even), whatever the batch split and the memory layout. An element that 96 bits leave undecided raises the
    request's flag `doubt`; with `sure` the request is then made by the CPU.
    """

    def __init__(self, law: Law, placement: InputPlacement, threads: int | None = None) -> None:
        import torch

        self.law = law
        self.placement = placement
        self._torch = torch
        self._kernels = _kernels()
        self._threads = threads
        self._device = torch.device(placement.device)
        self._dtype: torch.dtype = getattr(torch, placement.precision)
        guide = log_guide(law)
        self._bits = guide.bits
        self._guide = self._upload(guide.entries)
        self._values = self._upload(_values(law)).to(self._dtype)
        self._plain = self._upload(_sums(law).astype(np.int16))
        self._upper, self._lower = (self._upload(words) for words in _words(law))
        self._inputs: dict[tuple[int, bool, tuple[int, ...], bytes], torch.Tensor] = {}

    def noise(self, bits: Keystream, first: int, copies: int, dimension: int, sure: bool = False) -> Noise:
        """The noise of the copies first, …, first + copies − 1 of a stream with `dimension` coordinates, on the GPU.

        Guarantee: the one of the class; values in [−reach, reach].
        """
        check_room(first, copies, dimension)
        out = self._torch.empty((copies, dimension), dtype=self._torch.int16, device=self._device)
        doubt = self._fill(out, self._plain, 1, [Request(bits, np.zeros(dimension, np.int16), first, copies)])
        if doubt is None or (sure and bool(doubt.item())):
            exact = self._cpu.noise(bits, first, copies, dimension)
            inside = np.maximum(exact.levels, -self.law.reach)  # OPEN would lead `add` out of its table
            return Noise(self._upload(inside.astype(np.int16)), exact.lost)
        return Noise(out, (), None if sure else doubt)

    def noisy(self, bits: Keystream, x: Levels, first: int, copies: int, sure: bool = False) -> Noisy:
        """Noisy copies of the levels x: the value of clamp(x + T), in one pass over the output.

        Guarantee: the one of the class, in memory of its own that nothing else refers to.
        """
        found = self.noisy_together([Request(bits, x, first, copies)])
        if found is None or (sure and bool(found.doubt.item())):
            exact = self._cpu.noisy(bits, x, first, copies)
            out = self._empty(copies, x.shape) if found is None else found.values
            return Noisy(out.copy_(self._torch.from_numpy(exact.values)), exact.lost)
        return Noisy(found.values, (), None) if sure else found

    def noisy_together(self, requests: Sequence[Request]) -> Noisy | None:
        """Noisy copies for several requests, one after the other, made at once: starting a kernel takes longer than a
        small request. The requests have one key, one purpose and inputs of one shape. None for what the kernel cannot
        do.

        Guarantee: as for `noisy`; a doubt is one of all requests.
        """
        for each in requests:
            check_room(each.first, each.copies, each.x.size)
        shape = requests[0].x.shape
        out = self._empty(sum(each.copies for each in requests), shape)
        doubt = self._fill(out, self._values, self._channels(shape), requests)
        return None if doubt is None else Noisy(out, (), doubt)

    def add(self, noise: Noise, x: Levels) -> Noisy:
        """Noisy copies of x from noise that was drawn before and is used again, for another input.

        Guarantee: as for `noisy`; the noise itself stays as it is.
        """
        copies, dimension = noise.levels.shape
        if dimension != x.size:
            raise ValueError(f"noise for {dimension} coordinates does not fit an input of {x.size}")
        out, channels = self._empty(copies, x.shape), self._channels(x.shape)
        whole = _whole(dimension, channels)
        with self._here():
            self._kernels.add[(-(-copies * dimension // self._kernels.TILE.value),)](
                out, noise.levels, self._input(x, whole), self._values, copies * dimension,
                dimension=dimension, channels=channels, reach=self.law.reach, whole=whole, num_warps=WARPS,
            )  # fmt: skip
        return Noisy(out, noise.lost, noise.doubt)

    def values(self, levels: Levels) -> "torch.Tensor":
        """Inputs [count, …] without noise, as the model reads them: the float of each level.

        Guarantee: as for `noisy` where the noise is 0, in memory of its own.
        """
        count, *shape = levels.shape
        return self._empty(count, tuple(shape)).copy_(self._torch.from_numpy(self.law.grid.values(levels)))

    def try_out(self) -> None:
        """Run the smallest kernel once: an exception here, and not in the middle of a run, if Triton cannot.

        Guarantee: the tables are there, for whatever stream reads them.
        """
        noise = Noise(self._torch.zeros((1, 16), dtype=self._torch.int16, device=self._device), ())
        self.add(noise, np.zeros((16,), np.int16))
        if self._device.type == "cuda":
            self._torch.cuda.synchronize(self._device)

    def check_memory(self, needed: int, what: str, advice: str) -> None:
        """A ValueError for what does not fit into the GPU's free memory (what torch holds in reserve included)."""
        if self._device.type != "cuda":
            return check_memory(needed, what, advice)
        cuda = self._torch.cuda
        reserve = cuda.memory_reserved(self._device) - cuda.memory_allocated(self._device)
        refuse_beyond(cuda.mem_get_info(self._device)[0] + reserve, needed, what, advice)

    def _fill(self, out: Any, values: Any, channels: int, requests: Sequence[Request]) -> "torch.Tensor | None":
        """Write values[x + noise] into `out`; returns the flag, or None for what the kernel cannot do."""
        torch, bits, x, many = self._torch, requests[0].bits, requests[0].x, len(requests) > 1
        if any(each.element // CHUNK != (each.element + each.total - 1) // CHUNK for each in requests):
            return None
        whole, total = _whole(x.size, channels), sum(each.total for each in requests)
        capacity = FEW_UNDECIDED + TIMES_THE_MEAN * (2 * self.law.reach * total >> 32)
        counters = torch.zeros(2, dtype=torch.int32, device=self._device)
        runs = torch.empty(capacity, dtype=torch.int64, device=self._device)
        inputs = [self._input(each.x, whole) for each in requests]
        levels = torch.cat([each.reshape(-1) for each in inputs]) if many else inputs[0]
        programs = [each.programs(16 * channels * RUNS if whole else 16 * RUNS) for each in requests]
        parts = self._upload(_parts(requests, programs)) if many else runs  # which is not read then
        integers = values.view(torch.int32 if values.element_size() == 4 else torch.int16)
        flat = _in_memory(out).view(integers.dtype)
        key, element = _key(bits), requests[0].element
        block, word13 = (0, 0) if many else (element // 16, element // 16 >> 32 << 16)
        shape = {
            "dimension": x.size,
            "channels": channels,
            "reach": self.law.reach,
            "bits": self._bits,
            "start": first_bucket(self._bits),
            "whole": whole,
            "many": many,
        }
        with self._here():
            self._kernels.noisy[(sum(programs),)](
                flat.view(torch.int64) if whole else flat, levels, self._guide, integers, counters, runs, parts,
                *key, _signed(block), _signed(word13 | int(bits.purpose) << 8), element % 16, total, capacity,
                len(requests), size=8 * values.element_size(), num_warps=WARPS, **shape,
            )  # fmt: skip
            self._kernels.settle[(capacity,)](
                flat, levels, self._guide, integers, counters, runs, parts, self._upper, self._lower,
                *key, _signed(element), _signed(element >> 32), int(bits.purpose), total, capacity,
                num_warps=1, **shape,
            )  # fmt: skip
        return counters[1]  # type: ignore[no-any-return]

    def _channels(self, shape: tuple[int, ...]) -> int:
        """The number of channels if they are to lie last in memory, else 1."""
        return shape[0] if self.placement.channels_last and len(shape) == 3 else 1

    def _empty(self, copies: int, shape: tuple[int, ...]) -> "torch.Tensor":
        torch = self._torch
        layout = torch.channels_last if self.placement.channels_last and len(shape) == 3 else torch.contiguous_format
        out = torch.empty((copies, *shape), dtype=self._dtype, device=self._device, memory_format=layout)
        return out  # type: ignore[no-any-return]

    def _input(self, x: Levels, whole: bool) -> "torch.Tensor":
        """The levels on the GPU, as the kernels read them; kept for the next batch.

        For each stream its own, because what is given back is written over in the order of the stream that made it.
        """
        at = self._stream(), whole, x.shape, x.tobytes()
        found = self._inputs.get(at)
        if found is None:
            while self._inputs and (len(self._inputs) + 1) * max(x.size, LEAST_INPUT) > KEPT_INPUTS:
                self._inputs.pop(next(iter(self._inputs)), None)  # another thread may be doing the same
            flat = x.reshape(-1, 16).T if whole else x
            found = self._inputs[at] = self._upload(flat.astype(np.int32, order="C"))
        return found

    def _stream(self) -> int:
        """The number of the stream that is current."""
        return self._torch.cuda.current_stream(self._device).cuda_stream if self._device.type == "cuda" else 0

    def _upload(self, array: np.ndarray[Any, Any]) -> "torch.Tensor":
        """To the GPU, in the order of the current stream; from pinned memory, since other copies make the CPU wait."""
        here = self._torch.from_numpy(np.array(array, order="C"))
        return here if self._device.type == "cpu" else here.pin_memory().to(self._device, non_blocking=True)

    def _here(self) -> Any:
        """Kernels are launched on the current GPU, which need not be the model's."""
        return self._torch.cuda.device(self._device) if self._device.type == "cuda" else nullcontext()

    @cached_property
    def _cpu(self) -> Sampler:
        return Sampler(self.law, self._threads)


def _kernels() -> ModuleType:
    """The Triton kernels, or an ImportError; Triton is imported only here."""
    from . import kernels

    return kernels


def _whole(dimension: int, channels: int) -> bool:
    """Whether copies, and planes of channels that come last, are made of whole blocks of 16 elements."""
    return dimension % (16 * channels) == 0


def _in_memory(out: Any) -> Any:
    """The elements in the order of memory."""
    return (out if out.is_contiguous() else out.permute(0, 2, 3, 1)).view(-1)


def _key(bits: Keystream) -> list[int]:
    """Key and stream as signed 32-bit integers."""
    stream = bits.stream.to_bytes(8, "little")
    return [int(word) for word in np.frombuffer(bits.key + stream, "<i4")]


def _parts(requests: Sequence[Request], programs: Sequence[int]) -> np.ndarray[Any, Any]:
    """What the kernels read of many requests: the fields of each, and for each program its request."""
    numbers, totals = np.arange(len(requests)), [each.total for each in requests]
    streams = np.array([each.bits.stream for each in requests], np.uint64).view(np.int64)
    elements = [each.element for each in requests]
    fields: list[Any] = [numbers * requests[0].x.size, _starts(totals), streams, elements, totals, _starts(programs)]
    return np.concatenate([np.stack(fields, axis=1).reshape(-1), np.repeat(numbers, programs)], dtype=np.int64)


def _starts(sizes: Sequence[int]) -> np.ndarray[Any, Any]:
    """Where each begins, if they lie one after the other."""
    return np.cumsum([0, *sizes[:-1]])


def _signed(value: int) -> int:
    """The lowest 32 bits as a signed integer, whose type does not depend on its size."""
    return (value + SIGN) % (2 * SIGN) - SIGN


def _sums(law: Law) -> np.ndarray[Any, Any]:
    """Every t = x + noise there is."""
    return np.arange(-law.reach, law.grid.levels + law.reach)


def _values(law: Law) -> np.ndarray[Any, Any]:
    """The value of clamp(t) for every sum t."""
    return law.grid.values(np.clip(_sums(law), law.lowest, law.highest))


def _words(law: Law) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """⌊2⁹⁶ B_j⌋ as its upper 32 and lower 64 bits, in signed integers of the same bits."""
    floors = law.breakpoints(96)
    upper = np.array([floor >> 64 for floor in floors], np.uint32)
    lower = np.array([floor & ((1 << 64) - 1) for floor in floors], np.uint64)
    return upper.view(np.int32), lower.view(np.int64)


AnySampler = Sampler | GpuSampler


def sampler_at(law: Law, placement: InputPlacement | None, threads: int | None = None) -> tuple[AnySampler, str]:
    """The fastest sampler for a model, and in words which one: on its GPU, or on the CPU and why.

    Guarantee: the noise is the same wherever it is made.
    """
    if placement is None:
        return Sampler(law, threads), "cpu"
    try:
        sampler = GpuSampler(law, placement, threads)
        sampler.try_out()
        return sampler, "gpu"
    except ImportError:
        return Sampler(law, threads), "cpu, because Triton is not installed (pip install triton)"
    except CrowdedError as error:
        return Sampler(law, threads), f"cpu, because {error}"
    except Exception as error:  # Triton compiles with what it finds on the machine: anything can happen
        return Sampler(law, threads), f"cpu, because Triton does not run here: {(str(error).splitlines() or [''])[0]}"
