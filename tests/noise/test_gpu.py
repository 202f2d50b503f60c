"""The GPU's sampler is the specification, bit for bit: natively on a GPU, in Triton's interpreter elsewhere."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
import torch

from soundsmooth.core.grid import Grid
from soundsmooth.core.machine import InputPlacement
from soundsmooth.noise import Gaussian, GpuSampler, Keystream, Law, Noisy, Purpose, Sampler, reference_noise
from soundsmooth.noise.gpu import Request
from soundsmooth.noise.sampler import Noise

GPU = torch.cuda.is_available()
DEVICE = "cuda:0" if GPU else "cpu"
KEY = bytes.fromhex("00112233445566778899aabbccddeeff" * 2)
BITS = Keystream(KEY, Purpose.ESTIMATION, 7)
QUARTER = Gaussian("0.25")
SHIFTED = Grid(levels=16, q=15, offset=Fraction(-1, 3))
MOST, CHUNK = 1 << 51, 1 << 36
SHAPES = [
    (48,),  # whole blocks of 16 elements
    (50,),
    (2, 3),
    (1, 4, 8),
    (3, 4, 4),  # planes of whole blocks
    (3, 4, 5),
    (4, 4, 8),
    (4, 4, 5),  # whole blocks, but planes that are not
    (3, 1, 1),
]
LAYOUTS = [*((shape, False) for shape in SHAPES), *((shape, True) for shape in SHAPES if len(shape) == 3)]


@pytest.fixture(autouse=True)
def little_room(monkeypatch: pytest.MonkeyPatch, quick_interpreter: None) -> None:
    """No element is undecided here; room for fewer of them makes the interpreter quicker."""
    monkeypatch.setattr("soundsmooth.noise.gpu.FEW_UNDECIDED", 2)


def gpu(a_law: Law = QUARTER, precision: str = "float32", channels_last: bool = False) -> GpuSampler:
    return GpuSampler(a_law, InputPlacement(DEVICE, precision, channels_last), threads=1)


def image(shape: tuple[int, ...], levels: int = 256) -> np.ndarray:
    """Levels of all sizes, the lowest and the highest among them."""
    x = (np.arange(int(np.prod(shape))) * 37 % levels).astype(np.int16)
    x[-1] = levels - 1
    return x.reshape(shape)


def pattern(values: torch.Tensor) -> torch.Tensor:
    """The bits of the values, so that −0 is not 0."""
    return values.cpu().contiguous().view(torch.int32 if values.element_size() == 4 else torch.int16)


def is_the_cpus(found: Noisy, bits: Keystream, a_law: Law, x: np.ndarray, first: int, copies: int) -> None:
    expected = Sampler(a_law, 1).noisy(bits, x, first, copies).values
    assert found.lost == ()
    assert found.doubt is None or not found.doubt.item()
    assert found.values.shape == (copies, *x.shape)
    assert torch.equal(pattern(found.values), pattern(torch.from_numpy(expected).to(found.values.dtype)))


# --- layouts, precisions, laws ---------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize(("shape", "channels_last"), LAYOUTS, ids=str)
def test_every_layout_and_precision(shape: tuple[int, ...], precision: str, channels_last: bool) -> None:
    """Values and memory layout, from a first copy that begins in the middle of a block where the shape allows it."""
    found = gpu(QUARTER, precision, channels_last).noisy(BITS, image(shape), 5, 3)
    is_the_cpus(found, BITS, QUARTER, image(shape), 5, 3)
    assert found.values.dtype == getattr(torch, precision)
    assert found.values.device == torch.device(DEVICE)
    if channels_last:
        c, h, w = shape
        assert found.values.is_contiguous(memory_format=torch.channels_last)
        if c > 1 and h * w > 1:
            assert found.values.stride() == (c * h * w, 1, w * c, c)
    else:
        assert found.values.is_contiguous()


@pytest.mark.parametrize("sigma", ["0.12", "0.25", "0.5", "1"])
@pytest.mark.parametrize(("shape", "precision"), [((3, 32, 32), "float32"), ((1, 28, 29), "float16")], ids=str)
def test_images_at_every_sigma(sigma: str, shape: tuple[int, ...], precision: str) -> None:
    """More elements than one program makes."""
    a_law, channels_last = Gaussian(sigma), sigma in ("0.12", "1")
    found = gpu(a_law, precision, channels_last).noisy(BITS, image(shape), 2, 3)
    is_the_cpus(found, BITS, a_law, image(shape), 2, 3)


@pytest.mark.parametrize(
    "a_law",
    [
        Gaussian("1", "1/255"),
        Gaussian("2"),
        Gaussian("1/3", 2, SHIFTED),
        Gaussian("1/2", 1, Grid(levels=2, q=1)),
        Gaussian("1/1000"),
    ],
    ids=lambda a_law: f"sigma={a_law.sigma},reach={a_law.reach},offset={a_law.grid.offset}",
)
@pytest.mark.parametrize("shape", [(48,), (50,)], ids=str)
def test_other_laws(a_law: Law, shape: tuple[int, ...]) -> None:
    """Clamped almost always, more bits in the guide, a grid with an offset, five levels, hardly any noise."""
    x = image(shape, a_law.grid.levels)
    for precision in ("float32", "bfloat16", "float16"):
        is_the_cpus(gpu(a_law, precision).noisy(BITS, x, 3, 4), BITS, a_law, x, 3, 4)


# --- keys, streams, purposes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("purpose", Purpose)
@pytest.mark.parametrize(("stream", "dimension"), [(0, 16), (5, 13), (1 << 31, 16), (1 << 63, 13), ((1 << 64) - 1, 16)])
def test_the_reference_finds_the_same_noise(purpose: Purpose, stream: int, dimension: int) -> None:
    """Against the page of Python that shares no code with the kernels: every purpose, streams up to the last."""
    a_law, key = Gaussian("1"), bytes(reversed(range(200, 232)))
    found = gpu(a_law).noise(Keystream(key, purpose, stream), 3, 2, dimension)
    expected = [reference_noise(a_law, key, purpose, stream, 3 * dimension + i) for i in range(2 * dimension)]
    assert found.levels.dtype == torch.int16
    assert found.levels.shape == (2, dimension)
    assert found.levels.cpu().reshape(-1).tolist() == expected


# --- addresses -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dimension", [64, 50])
@pytest.mark.parametrize("end", [1 << 31, 1 << 32, CHUNK, 3 * CHUNK, MOST], ids=lambda n: f"{n:#x}")
def test_large_addresses(dimension: int, end: int) -> None:
    """The last copies before an address, where 32 bits or a chunk end, and the first ones after it."""
    sampler, x = gpu(), image((dimension,))
    last = end // dimension
    requests = [(last - 3, 3)] if end == MOST else [(last - 3, 3), (-(-end // dimension), 2)]
    for first, copies in requests:
        found = sampler.noisy(BITS, x, first, copies)
        assert found.doubt is not None, "made by the CPU"
        is_the_cpus(found, BITS, QUARTER, x, first, copies)


@pytest.mark.parametrize("dimension", [48, 50])
@pytest.mark.parametrize("end", [CHUNK, 32767 * CHUNK], ids=lambda n: f"{n:#x}")
@pytest.mark.parametrize("channels_last", [False, True])
def test_across_the_end_of_a_chunk(dimension: int, end: int, channels_last: bool) -> None:
    """ChaCha20's block counter starts again within the request: the CPU steps in, and the noise is right."""
    shape = (dimension // 2, 2, 1)
    x, first = image(shape), end // dimension - 1
    sampler = gpu(QUARTER, "bfloat16", channels_last)
    found = sampler.noisy(BITS, x, first, 3)
    assert found.doubt is None
    assert found.values.device == torch.device(DEVICE)
    assert not channels_last or found.values.is_contiguous(memory_format=torch.channels_last)
    is_the_cpus(found, BITS, QUARTER, x, first, 3)
    kept = sampler.noise(BITS, first, 3, dimension)
    assert (kept.doubt, kept.lost) == (None, ())
    assert np.array_equal(kept.levels.cpu(), Sampler(QUARTER, 1).noise(BITS, first, 3, dimension).levels)


@pytest.mark.parametrize(("first", "copies", "dimension"), [(MOST, 1, 1), (0, 3, 1 << 50), (-1, 1, 4), (0, 0, 4)])
def test_what_is_not_in_the_stream_is_refused(first: int, copies: int, dimension: int) -> None:
    with pytest.raises(ValueError, match=r"2⁵¹|there is no noise"):
        gpu().noise(BITS, first, copies, dimension)
    if dimension < 10:
        with pytest.raises(ValueError, match=r"2⁵¹|there is no noise"):
            gpu().noisy(BITS, np.zeros(dimension, np.int16), first, copies)


@pytest.mark.skipif(not GPU, reason="needs 9 GB on a GPU")
@pytest.mark.parametrize("shape", [(3, 32, 32), (3, 31, 33)], ids=str)
def test_more_than_two_to_the_31_elements_in_one_request(shape: tuple[int, ...]) -> None:
    """Positions beyond 2³¹ and 2³² within the output: the first, some middle and the last copies."""
    x = image(shape)
    sampler, copies = gpu(QUARTER, "bfloat16", True), (1 << 32) // x.size + 5
    found = sampler.noisy(BITS, x, 3, copies, sure=True)
    for at in (0, (1 << 31) // x.size, (1 << 32) // x.size, copies - 2):
        is_the_cpus(Noisy(found.values[at : at + 2], ()), BITS, QUARTER, x, 3 + at, 2)


# --- splits, reuse, memory -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("shape", "channels_last"), [((7,), False), ((3, 4, 4), True), ((2, 3, 5), True)])
def test_batch_splits_do_not_matter(shape: tuple[int, ...], channels_last: bool) -> None:
    sampler, x = gpu(channels_last=channels_last), image(shape)
    whole = sampler.noisy(BITS, x, 5, 30).values
    for a, b in itertools.pairwise([0, 1, 7, 30]):
        assert torch.equal(sampler.noisy(BITS, x, 5 + a, b - a).values, whole[a:b])


@pytest.mark.parametrize("precision", ["float32", "float16"])
@pytest.mark.parametrize(
    ("shape", "channels_last"), [((48,), False), ((50,), False), ((3, 4, 4), True), ((4, 4, 5), True)], ids=str
)
def test_noise_and_add_are_noisy(shape: tuple[int, ...], channels_last: bool, precision: str) -> None:
    """Drawn once and added to two inputs; the noise stays as it is, and a doubt or a loss goes with it."""
    sampler, x = gpu(QUARTER, precision, channels_last), image(shape)
    noise = sampler.noise(BITS, 2, 3, x.size)
    before = noise.levels.clone()
    for each in (x, 255 - x):
        found = sampler.add(noise, each)
        is_the_cpus(found, BITS, QUARTER, each, 2, 3)
        assert found.doubt is noise.doubt
        assert not channels_last or found.values.is_contiguous(memory_format=torch.channels_last)
        found.values.fill_(float("nan"))
    assert torch.equal(noise.levels, before)


def test_noise_of_another_dimension_is_refused() -> None:
    noise = gpu().noise(BITS, 0, 2, 4)
    with pytest.raises(ValueError, match="noise for 4 coordinates does not fit an input of 3"):
        gpu().add(noise, np.zeros(3, np.int16))


def test_each_result_has_memory_of_its_own() -> None:
    """Nothing else lies in it, and what the model does to it reaches no other batch."""
    sampler, x = gpu(), image((3, 4, 4))
    noise = sampler.noise(BITS, 0, 2, x.size)
    found = [sampler.noisy(BITS, x, 0, 2).values for _ in range(2)]
    found += [sampler.add(noise, x).values for _ in range(2)] + [noise.levels]
    storages = [values.untyped_storage() for values in found]
    assert len({storage.data_ptr() for storage in storages}) == len(found)
    assert [storage.nbytes() for storage in storages] == [values.nbytes for values in found]
    found[0].fill_(float("nan"))
    is_the_cpus(sampler.noisy(BITS, x, 0, 2), BITS, QUARTER, x, 0, 2)
    is_the_cpus(Noisy(found[1], ()), BITS, QUARTER, x, 0, 2)


def test_the_input_of_this_call_is_used() -> None:
    """The levels are kept on the GPU for the next batch, but not for another input, nor for one that was changed."""
    sampler, x = gpu(channels_last=True), image((3, 4, 4))
    strided = np.asfortranarray(x)
    for each in (x, 255 - x, strided, x.reshape(48), x[:, :, :3].copy(), x):
        is_the_cpus(sampler.noisy(BITS, each, 0, 2), BITS, QUARTER, each, 0, 2)
    x[0, 0, 0] += 1
    is_the_cpus(sampler.noisy(BITS, x, 0, 2), BITS, QUARTER, x, 0, 2)


# --- several requests at once ----------------------------------------------------------------------------------


def requests_for(shape: tuple[int, ...]) -> list[Request]:
    """Of other inputs, other streams up to the last one, other first copies in another chunk too, and other sizes."""
    dimension = int(np.prod(shape))
    streams = [0, 5, (1 << 63) + 9, (1 << 64) - 1, 3, 4]
    firsts = [0, 5, 1, CHUNK // dimension + 7, (1 << 32) // dimension - 2, 2]
    inputs = [np.roll(image(shape), place, axis=-1) for place in range(6)]
    keystreams = [Keystream(KEY, Purpose.ESTIMATION, stream) for stream in streams]
    return list(map(Request, keystreams, inputs, firsts, [1, 2, 3, 4, 1, 2]))


@pytest.mark.parametrize("precision", ["float32", "float16"])
@pytest.mark.parametrize(("shape", "channels_last"), LAYOUTS, ids=str)
def test_requests_that_are_made_together(shape: tuple[int, ...], channels_last: bool, precision: str) -> None:
    """Each has the noise that it has alone, wherever its output lies."""
    requests, sampler = requests_for(shape), gpu(QUARTER, precision, channels_last)
    found = sampler.noisy_together(requests)
    assert found is not None
    assert not found.doubt.item()
    assert not channels_last or found.values.is_contiguous(memory_format=torch.channels_last)
    start = 0
    for bits, x, first, copies in requests:
        some = Noisy(found.values[start : start + copies], ())
        is_the_cpus(some, bits, QUARTER, x, first, copies)
        start += copies
    assert start == len(found.values)


@pytest.mark.parametrize(("shape", "channels_last"), [((3, 32, 32), True), ((1, 28, 29), False)], ids=str)
def test_requests_of_several_programs_made_together(shape: tuple[int, ...], channels_last: bool) -> None:
    """More elements than one program makes, in some of the parts."""
    sampler, x = gpu(QUARTER, "bfloat16", channels_last), image(shape)
    requests = [Request(Keystream(KEY, Purpose.SELECTION, s), x, 2 + s, copies) for s, copies in enumerate((3, 1, 4))]
    found = sampler.noisy_together(requests)
    assert found is not None
    for (bits, _, first, copies), start in zip(requests, (0, 3, 4), strict=True):
        is_the_cpus(Noisy(found.values[start : start + copies], ()), bits, QUARTER, x, first, copies)


def test_requests_across_the_end_of_a_chunk_are_not_made_together() -> None:
    x = image((48,))
    requests = [Request(BITS, x, 0, 2), Request(BITS, x, CHUNK // 48 - 1, 3)]
    assert gpu().noisy_together(requests) is None
    with pytest.raises(ValueError, match="there is no noise"):
        gpu().noisy_together([requests[0], Request(BITS, x, -1, 2)])


# --- without noise -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize(("a_law", "channels_last"), [(QUARTER, True), (Gaussian("0.25", 1, SHIFTED), False)])
def test_clean_inputs_are_noisy_ones_without_noise(precision: str, a_law: Law, channels_last: bool) -> None:
    """The same floats in the same layout: the kernel's own, for noise that is 0 everywhere."""
    sampler, x = gpu(a_law, precision, channels_last), image((3, 4, 4), a_law.grid.levels)
    zero = Noise(torch.zeros((2, x.size), dtype=torch.int16, device=DEVICE), ())
    expected, found = sampler.add(zero, x).values, sampler.values(np.stack([x, x]))
    assert torch.equal(pattern(found), pattern(expected))
    assert (found.dtype, found.device, found.stride()) == (expected.dtype, expected.device, expected.stride())


def test_inputs_are_kept_on_the_gpu_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """With looks a few dozen images share each batch. Others that come later get values of their own."""
    monkeypatch.setattr("soundsmooth.noise.gpu.KEPT_INPUTS", 299)
    sampler = gpu()
    inputs = [np.roll(image((48,)), turn) for turn in range(3)]
    kept = []
    for x in (*inputs, inputs[2], image((50,)), inputs[0]):
        is_the_cpus(sampler.noisy(BITS, x, 0, 3), BITS, QUARTER, x, 0, 3)
        kept.append([each.numel() for each in sampler._inputs.values()])
    assert kept == [[48], [48, 48], [48, 48], [48, 48], [48, 50], [50, 48]]
