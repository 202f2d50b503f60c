"""The Triton kernels: keystream → noise → + x → clamp → value, in one pass over the output.

Everything here is integers until the last step, a lookup in a table of values, so that nothing depends on how a GPU
rounds. (The one float names a bucket, by a conversion and an addition that IEEE 754 fixes: see `log_guide`.) The same
source runs under Triton's interpreter (TRITON_INTERPRET=1) on a machine without a GPU.

A thread makes a whole ChaCha20 block, 16 elements, and stores them packed in 64-bit words. With the channels last in
memory it makes the same 16 positions of every channel, which lie side by side there.
"""

import triton
import triton.language as tl

#: Runs of 16 elements (of each channel, if these come last) that one program makes.
RUNS = tl.constexpr(128)
#: Elements that one program of `add` works on.
TILE = tl.constexpr(2048)
#: Of each part of a request: where its input and its output begin, its stream, its first element there, how many
#: elements it has, and which program makes the first of them.
FIELDS = tl.constexpr(6)
#: More runs than a part has: a run of a later part is numbered by so many more.
RUNS_OF_A_PART = tl.constexpr(1 << 40)

#: Arguments whose values must not lead to kernels of their own.
KEY = ["key0", "key1", "key2", "key3", "key4", "key5", "key6", "key7", "stream0", "stream1"]


@triton.jit
def _quarter(a, b, c, d):
    a = a + b
    d = d ^ a
    d = (d << 16) | (d >> 16)
    c = c + d
    b = b ^ c
    b = (b << 12) | (b >> 20)
    a = a + b
    d = d ^ a
    d = (d << 8) | (d >> 24)
    c = c + d
    b = b ^ c
    b = (b << 7) | (b >> 25)
    return a, b, c, d


@triton.jit
def _diagonals(x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15):
    x0, x5, x10, x15 = _quarter(x0, x5, x10, x15)
    x1, x6, x11, x12 = _quarter(x1, x6, x11, x12)
    x2, x7, x8, x13 = _quarter(x2, x7, x8, x13)
    x3, x4, x9, x14 = _quarter(x3, x4, x9, x14)
    return x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15


@triton.jit
def _chacha20(counter, word13, k0, k1, k2, k3, k4, k5, k6, k7, s0, s1):
    """RFC 8439: the 16 words of the blocks with these counters. Word 13 is level, purpose and chunk, s the stream.

    In the first column round only the column of the counter differs from block to block.
    """
    n0, n1, n2, n3 = k0 * 0 + 0x61707865, k0 * 0 + 0x3320646E, k0 * 0 + 0x79622D32, k0 * 0 + 0x6B206574
    x0, x4, x8, x12 = _quarter(counter * 0 + n0, counter * 0 + k0, counter * 0 + k4, counter)
    x1, x5, x9, x13 = _quarter(n1, k1, k5, word13)
    x2, x6, x10, x14 = _quarter(n2, k2, k6, s0)
    x3, x7, x11, x15 = _quarter(n3, k3, k7, s1)
    x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15 = _diagonals(
        x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15
    )
    for _ in range(9):
        x0, x4, x8, x12 = _quarter(x0, x4, x8, x12)
        x1, x5, x9, x13 = _quarter(x1, x5, x9, x13)
        x2, x6, x10, x14 = _quarter(x2, x6, x10, x14)
        x3, x7, x11, x15 = _quarter(x3, x7, x11, x15)
        x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15 = _diagonals(
            x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15
        )
    return (
        x0 + n0, x1 + n1, x2 + n2, x3 + n3, x4 + k0, x5 + k1, x6 + k2, x7 + k3,
        x8 + k4, x9 + k5, x10 + k6, x11 + k7, x12 + counter, x13 + word13, x14 + s0, x15 + s1,
    )  # fmt: skip


@triton.jit
def _look_up(u, guide, bits: tl.constexpr, start: tl.constexpr):
    """The entry of a word's bucket (`log_guide`): how far the word lies above the entry's, and the noise below that."""
    s = u.to(tl.int32, bitcast=True)
    pattern = (s.to(tl.float32) + 0.5).to(tl.uint32, bitcast=True)
    entry = tl.load(guide + ((pattern >> (23 - bits)).to(tl.int32) - start))
    return s - entry.to(tl.int32), (entry >> 32).to(tl.int32)


@triton.jit
def _place(column, dimension: tl.constexpr, channels: tl.constexpr):
    """Where a coordinate lies in memory: as it is, or with the channels last."""
    area: tl.constexpr = dimension // channels
    return (column % area) * channels + column // area


@triton.jit
def _column_of_x(column, dimension: tl.constexpr, whole: tl.constexpr):
    """Where x has a coordinate: for whole blocks, the first elements of all blocks come first, then the second ones."""
    return (column % 16) * (dimension // 16) + column // 16 if whole else column


@triton.jit(do_not_specialize=[*KEY, "counter", "word13", "skipped", "capacity", "count"])
def noisy(
    out, x, guide, values, undecided, runs, parts,
    key0, key1, key2, key3, key4, key5, key6, key7, stream0, stream1,
    counter, word13, skipped, total, capacity, count,
    dimension: tl.constexpr, channels: tl.constexpr, reach: tl.constexpr, bits: tl.constexpr, start: tl.constexpr,
    size: tl.constexpr, whole: tl.constexpr, many: tl.constexpr,
):  # fmt: skip
    """Write values[x + noise] for `total` elements of a stream, from word `skipped` of block `counter` on.

    `whole` says that copies, and the planes of channels that come last, begin and end with a block; then `out` is given
    as 64-bit words, of values with `size` bits. Elements that 32 bits leave undecided get some value here, and their
    run is left to `settle`.

    `many` says that there are `count` parts, each with a stream, an input and elements of its own (`FIELDS`), and then
    for each program its part: what differs from part to part is read there.
    """
    k0, k1, k2, k3 = key0.to(tl.uint32), key1.to(tl.uint32), key2.to(tl.uint32), key3.to(tl.uint32)
    k4, k5, k6, k7 = key4.to(tl.uint32), key5.to(tl.uint32), key6.to(tl.uint32), key7.to(tl.uint32)
    s0, s1, c0, w13 = stream0.to(tl.uint32), stream1.to(tl.uint32), counter.to(tl.uint32), word13.to(tl.uint32)
    begin, part = tl.program_id(0).to(tl.int64) * RUNS, 0
    lane = tl.arange(0, RUNS)
    if many:
        part = tl.load(parts + count * FIELDS + tl.program_id(0))
        x, offset, s0, s1, first, total, program = _part(parts + part * FIELDS, x)
        out += tl.multiple_of(offset * size // 64, 2) if whole else offset  # a part begins with a block
        c0, skipped = (first >> 4).to(tl.uint32), first % 16
        w13 = w13 | ((first >> 36).to(tl.uint32) << 16)
        begin -= program * RUNS

    if whole:
        width: tl.constexpr = dimension // 16 // channels  # runs in a plane of a channel (or in a copy)
        copy = begin // width
        column = (begin - copy * width).to(tl.int32) + lane
        copy, column = (copy + column // width) * (dimension // 16), column % width
        alive = begin + lane < total // 16 // channels
        closest = tl.full([RUNS], 0xFFFFFFFF, tl.uint32)
        found = ()
        for channel in tl.static_range(channels):
            block = copy + channel * width + column
            u = _chacha20(c0 + block.to(tl.uint32), w13, k0, k1, k2, k3, k4, k5, k6, k7, s0, s1)
            for i in tl.static_range(16):
                above, below = _look_up(u[i], guide, bits, start)
                level = tl.load(x + i * (dimension // 16) + channel * width + column)
                noise = below + ((0 - above).to(tl.uint32, bitcast=True) >> 31).to(tl.int32)
                found = found + (tl.load(values + reach + (level + noise)),)  # noqa: RUF005 (Triton has no other way)
                closest = tl.minimum(closest, above.to(tl.uint32, bitcast=True))
        each: tl.constexpr = 64 // size
        target = out + (begin + lane)[:, None] * (16 * channels // each) + tl.arange(0, 2)[None, :]
        for i in tl.static_range(8 * channels // each):
            pair = tl.join(_packed(found, 2 * i, channels, size), _packed(found, 2 * i + 1, channels, size))
            tl.store(target + 2 * i, pair, mask=alive[:, None])
        _leave(begin + lane, part, (closest == 0) & alive, undecided, runs, capacity, many)
    else:
        u = _chacha20(c0 + (begin + lane).to(tl.uint32), w13, k0, k1, k2, k3, k4, k5, k6, k7, s0, s1)
        closest = tl.full([RUNS], 0xFFFFFFFF, tl.uint32)
        for i in tl.static_range(16):
            position = (begin + lane) * 16 + (i - skipped)
            alive = (position >= 0) & (position < total)
            above, below = _look_up(u[i], guide, bits, start)
            noise = below + ((0 - above).to(tl.uint32, bitcast=True) >> 31).to(tl.int32)
            copy, column = position // dimension, position % dimension
            level = tl.load(x + column, mask=alive, other=0)
            value = tl.load(values + reach + (level + noise))
            tl.store(out + copy * dimension + _place(column, dimension, channels), value, mask=alive)
            closest = tl.minimum(closest, above.to(tl.uint32, bitcast=True))
        _leave(begin + lane, part, closest == 0, undecided, runs, capacity, many)


@triton.jit
def _part(fields, x):
    """What is said of a part: its input, where its output begins, its stream, its first element, how many it has, and
    which program makes the first of them.
    """
    stream = tl.load(fields + 2)
    s0, s1 = stream.to(tl.uint32), (stream >> 32).to(tl.uint32)
    return (
        x + tl.load(fields), tl.load(fields + 1), s0, s1, tl.load(fields + 3), tl.load(fields + 4), tl.load(fields + 5)
    )  # fmt: skip


@triton.jit
def _packed(found, i: tl.constexpr, channels: tl.constexpr, size: tl.constexpr):
    """The i-th 64-bit word of a run's values."""
    each: tl.constexpr = 64 // size
    packed = tl.zeros([RUNS], tl.uint64)
    for j in tl.static_range(each):
        value = found[((i * each + j) % channels) * 16 + (i * each + j) // channels]
        packed = packed | (_unsigned(value, size).to(tl.uint64) << (size * j))
    return packed.to(tl.int64, bitcast=True)


@triton.jit
def _unsigned(value, size: tl.constexpr):
    return value.to(tl.uint32, bitcast=True) if size == 32 else value.to(tl.uint16, bitcast=True)


@triton.jit
def _leave(run, part, tied, undecided, runs, capacity, many: tl.constexpr):
    """Leave a run with an undecided element to `settle`."""
    slot = tl.atomic_add(undecided + tl.zeros([RUNS], tl.int32), 1, mask=tied, sem="relaxed")
    tl.store(runs + slot, run + part * RUNS_OF_A_PART if many else run, mask=tied & (slot < capacity))


@triton.jit(do_not_specialize=[*KEY, "first0", "first1", "purpose", "capacity"])
def settle(
    out, x, guide, values, undecided, runs, parts, upper, lower,
    key0, key1, key2, key3, key4, key5, key6, key7, stream0, stream1,
    first0, first1, purpose, total, capacity,
    dimension: tl.constexpr, channels: tl.constexpr, reach: tl.constexpr, bits: tl.constexpr, start: tl.constexpr,
    whole: tl.constexpr, many: tl.constexpr,
):  # fmt: skip
    """Decide what `noisy` left undecided with the 64 bits of level 1: count the breakpoints below 96 bits of U.

    undecided[0] is the number of runs with such an element. undecided[1] becomes positive if 96 bits do not decide
    either, or if there were more runs than the capacity: then the whole request has to be made by the CPU. The request
    begins with element first0 + 2³²·first1 of the stream. `many` is as for `noisy`.
    """
    k0, k1, k2, k3 = key0.to(tl.uint32), key1.to(tl.uint32), key2.to(tl.uint32), key3.to(tl.uint32)
    k4, k5, k6, k7 = key4.to(tl.uint32), key5.to(tl.uint32), key6.to(tl.uint32), key7.to(tl.uint32)
    s0, s1, w13 = stream0.to(tl.uint32), stream1.to(tl.uint32), purpose.to(tl.uint32) << 8
    first = first0.to(tl.uint32).to(tl.int64) + (first1.to(tl.uint32).to(tl.int64) << 32)
    count = tl.load(undecided)
    if count > capacity:
        tl.store(undecided + 1, 1)
    if tl.program_id(0) < tl.minimum(count, capacity):
        run = tl.load(runs + tl.program_id(0))
        if many:
            given, offset, t0, t1, begin, length, _ = _part(parts + run // RUNS_OF_A_PART * FIELDS, x)
            made, run = out + offset, run % RUNS_OF_A_PART
        else:
            given, made, t0, t1, begin, length = x, out, s0, s1, first, total
        lane = tl.arange(0, 16)
        for channel in range(channels if whole else 1):
            if whole:
                width: tl.constexpr = dimension // 16 // channels
                position = ((run // width) * channels * width + channel * width + run % width) * 16 + lane
            else:
                position = run * 16 + lane - begin % 16
            element = tl.maximum(begin + position, 0)
            w0 = _word(element % 16, *_block(element // 16, w13, k0, k1, k2, k3, k4, k5, k6, k7, t0, t1))
            later = _block(element // 8, w13 | 1, k0, k1, k2, k3, k4, k5, k6, k7, t0, t1)
            low, high = _word(element % 8 * 2, *later), _word(element % 8 * 2 + 1, *later)
            w1 = (high.to(tl.uint64) << 32) | low.to(tl.uint64)
            above, below = _look_up(w0, guide, bits, start)
            tied = (above == 0) & (position >= 0) & (position < length)
            # `passed` breakpoints have a smaller word; count on through those with this word and less behind it.
            passed, going = below + reach, tied
            while tl.max(going.to(tl.int32), axis=0) > 0:
                here = going & (passed < 2 * reach)
                b0 = tl.load(upper + passed, mask=here, other=0).to(tl.uint32, bitcast=True)
                b1 = tl.load(lower + passed, mask=here, other=0).to(tl.uint64, bitcast=True)
                same = here & (b0 == w0)
                if tl.max((same & (b1 == w1)).to(tl.int32), axis=0) > 0:
                    tl.store(undecided + 1, 1)
                going = same & (b1 < w1)
                passed += going.to(tl.int32)
            copy, column = position // dimension, position % dimension
            level = tl.load(given + _column_of_x(column, dimension, whole), mask=tied, other=0)
            value = tl.load(values + level + passed, mask=tied, other=0)
            tl.store(made + copy * dimension + _place(column, dimension, channels), value, mask=tied)


@triton.jit
def _block(block, w13, k0, k1, k2, k3, k4, k5, k6, k7, s0, s1):
    """The words of blocks that may lie in any chunk."""
    w13 = w13 | ((block >> 32).to(tl.uint32) << 16)
    return _chacha20(block.to(tl.uint32), w13, k0, k1, k2, k3, k4, k5, k6, k7, s0, s1)


@triton.jit
def _word(i, x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15):
    """The i-th of 16 words."""
    a = tl.where(i == 0, x0, tl.where(i == 1, x1, tl.where(i == 2, x2, x3)))
    b = tl.where(i == 4, x4, tl.where(i == 5, x5, tl.where(i == 6, x6, x7)))
    c = tl.where(i == 8, x8, tl.where(i == 9, x9, tl.where(i == 10, x10, x11)))
    d = tl.where(i == 12, x12, tl.where(i == 13, x13, tl.where(i == 14, x14, x15)))
    return tl.where(i < 4, a, tl.where(i < 8, b, tl.where(i < 12, c, d)))


@triton.jit
def add(
    out, noise, x, values, total,
    dimension: tl.constexpr, channels: tl.constexpr, reach: tl.constexpr, whole: tl.constexpr,
):  # fmt: skip
    """Noisy values from noise that was drawn before: one pass, nothing but a lookup."""
    begin = tl.program_id(0).to(tl.int64) * TILE
    lane = tl.arange(0, TILE)
    alive = lane < tl.minimum(total - begin, TILE).to(tl.int32)
    copy = begin // dimension
    column = (begin - copy * dimension).to(tl.int32) + lane
    later, column = column // dimension, column % dimension
    level = tl.load(x + _column_of_x(column, dimension, whole)) + tl.load(noise + begin + lane, mask=alive, other=0)
    target = out + copy * dimension + (later * dimension + _place(column, dimension, channels))
    tl.store(target, tl.load(values + reach + level), mask=alive)
