"""Instructions of barriers, copies and matrix products, as PTX writes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
from xdsl.ir import Attribute

from tawa.base.numerics import Array, decode, encode, storage_dtype
from tawa.base.types import NAMES, byte_size
from tawa.simulate.interpret.global_memory import TensorMap
from tawa.simulate.interpret.tensor_core import (
    MatrixDescriptor,
    accumulator_places,
    from_fragment,
    multiply,
)
from tawa.simulate.ptx.arithmetic import Unsupported
from tawa.simulate.ptx.cta import Cta, Mbarrier
from tawa.simulate.ptx.machine import BadAccess
from tawa.simulate.ptx.program import Instruction, split

GROUP = 128
"""Threads of a warp group."""


def _addresses(m: Cta, operand: str, mask: Array) -> list[tuple[int, int]]:
    """Addresses in shared memory, and how many threads name each."""
    at, counts = np.unique(m.address(operand)[mask], return_counts=True)
    return [(int(a), int(n)) for a, n in zip(at, counts, strict=True)]


def _init(m: Cta, i: Instruction, mask: Array) -> None:
    for at, _ in _addresses(m, i.operands[0], mask):
        m.mbarriers[at] = Mbarrier(int(m.raw(i.operands[1], 32)[mask][0]))


def _arrive(m: Cta, i: Instruction, mask: Array) -> None:
    place = next(o for o in i.operands if o[0] == "[")
    number = i.operands[i.operands.index(place) + 1] if i.operands[-1] != place else "1"
    counted = m.raw(number, 32)
    for at, threads in _addresses(m, place, mask):
        if "expect_tx" in i.opcode:
            m.mbarrier(at).arrive(threads, expected=int(counted[mask][0]) * threads)
        else:
            m.mbarrier(at).arrive(threads * int(counted[mask][0]))


def _copies_arrive(m: Cta, i: Instruction, mask: Array) -> None:
    for at, threads in _addresses(m, i.operands[0], mask):
        m.mbarrier(at).arrive(threads)


def _try_wait(m: Cta, i: Instruction, mask: Array) -> None:
    parities = m.raw(i.operands[2], 32)
    places = m.address(i.operands[1])
    m.write(i.operands[0], np.ones(m.threads, bool), mask)
    for at in np.unique(places[mask]):
        for parity in (0, 1):
            threads = mask & (places == at) & (parities == parity)
            found = m.mbarrier(int(at))
            if threads.any() and not found.passes(parity):
                m.again(threads, i, lambda f=found, p=parity: f.passes(p))


def _meet(m: Cta, i: Instruction, mask: Array) -> None:
    """`bar.sync`, `bar.arrive`: so many threads, by default all."""
    numbers = m.raw(i.operands[0], 32)
    counts = m.raw(i.operands[1], 32) if len(i.operands) > 1 else np.full(m.threads, m.threads)
    for number in np.unique(numbers[mask]):
        threads = mask & (numbers == number)
        count = int(counts[threads][0])
        here = m.meetings.setdefault(int(number), np.zeros(m.threads, bool))
        if (here & threads).any():
            raise BadAccess(f"a thread comes to barrier {number} a second time")
        here |= threads
        if here.sum() > count:
            raise BadAccess(f"{int(here.sum())} threads at barrier {number} of {count}")
        if here.sum() == count:
            del m.meetings[int(number)]
        if "sync" in i.opcode:
            m.stand(threads, lambda h=here, c=count: bool(h.sum() == c), i)


def _copy(m: Cta, i: Instruction, mask: Array) -> None:
    """`cp.async` of each thread; what is beyond the source's bytes is zero."""
    target, place, whole, *counts = i.operands
    size = int(m.raw(whole, 32)[mask][0])
    wanted = m.raw(counts[0], 32) if counts else np.full(m.threads, size)
    data = np.zeros((m.threads, size), np.uint8)
    source = m.address(place)
    for count in np.unique(wanted[mask]):
        if count:
            some = mask & (wanted == count)
            data[some, :count] = m.load(source, int(count), "global", some)[some]
    m.store(m.address(target), data, "shared", mask)


def _copies_of(m: Cta, operand: str, mask: Array) -> Iterator[tuple[int, TensorMap, list[int]]]:
    """`[map, {c0, c1}]` of each thread that runs it; coordinates outermost first."""
    found = re.fullmatch(r"\[\s*(\S+?)\s*,\s*\{(.*)\}\s*\]", operand)
    assert found is not None
    places = m.raw(found[1], 64)
    coordinates = [m.value(c.strip(), "s32") for c in found[2].split(",")][::-1]
    for thread in map(int, np.flatnonzero(mask)):
        yield thread, m.map_at(int(places[thread])), [int(c[thread]) for c in coordinates]


def _bulk_load(m: Cta, i: Instruction, mask: Array) -> None:
    if "multicast::cluster" in i.opcode:
        raise Unsupported(i.text)
    tiles, barriers = m.address(i.operands[0]), m.address(i.operands[2])
    for thread, map_, where in _copies_of(m, i.operands[1], mask):
        tile, barrier = int(tiles[thread]), m.mbarrier(int(barriers[thread]))

        def land(map_: TensorMap = map_, where: list[int] = where, tile: int = tile) -> None:
            m.shared.data[map_.shared_addresses(tile)] = map_.read(m.memory, where)

        m.start_load(land, lambda b=barrier, n=map_.bytes: b.arrive(landed=n))


def _bulk_store(m: Cta, i: Instruction, mask: Array) -> None:
    tiles = m.address(i.operands[1])
    for thread, map_, where in _copies_of(m, i.operands[0], mask):

        def write(
            map_: TensorMap = map_, where: list[int] = where, tile: int = int(tiles[thread])
        ) -> None:
            map_.write(m.memory, where, m.shared.data[map_.shared_addresses(tile)])

        m.start_store(thread, write)


def _bulk_commit(m: Cta, i: Instruction, mask: Array) -> None:
    for thread in np.flatnonzero(mask):
        m.stores.setdefault(int(thread), [[]]).append([])


def _bulk_wait(m: Cta, i: Instruction, mask: Array) -> None:
    for thread in np.flatnonzero(mask):
        m.stores_over(int(thread), int(m.raw(i.operands[0], 32)[0]))


def _product(m: Cta, i: Instruction, mask: Array) -> None:
    """`wgmma.mma_async`, done as soon as all threads of a warp group have come to it."""
    for first in range(0, m.threads, GROUP):
        group = np.zeros(m.threads, bool)
        group[first : first + GROUP] = True
        if not (mask & group).any():
            continue
        here = m.products.setdefault((first, i.text), np.zeros(m.threads, bool))
        here |= mask & group
        if here.sum() == GROUP:
            del m.products[first, i.text]
            _multiplied(m, i, first, group)
        else:
            m.stand(mask & group, lambda h=here: bool(h.sum() == GROUP), i)


def _multiplied(m: Cta, i: Instruction, first: int, group: Array) -> None:
    """One warp group's product."""
    shape = re.fullmatch(r"m64n(\d+)k(\d+)", i.opcode[4])
    assert shape is not None
    n = int(shape[1])
    total, a_type, b_type = (NAMES[_ELEMENTS.get(k, k)] for k in i.opcode[5:8])
    names, part = split(i.operands[0].strip("{}")), slice(first, first + GROUP)
    in_registers, transposes = i.operands[1][0] == "{", byte_size(a_type) == 2
    turned = [int(o) for o in i.operands[-2:]] if transposes else [0, 0]
    if in_registers:
        a = _from_registers(m, i.operands[1], a_type, part)
    else:
        a = _from_shared(m, i.operands[1], (64, a_type, turned[0] == 1), first)
    b = _from_shared(m, i.operands[2], (n, b_type, turned[1] == 1), first)
    words = np.stack([m.raw(name, 32)[part] for name in names], axis=1)
    held = decode(np.ascontiguousarray(words).view(storage_dtype(total)), total)
    start = np.zeros((64, n), held.dtype)
    row, column = accumulator_places(n)
    start[row, column] = held.reshape(GROUP, -1)
    keep = bool(m.raw(i.operands[3], 1)[first])
    found = multiply(a, b, start if keep else None, (a_type, total))[row, column]
    stored = np.ascontiguousarray(encode(found, total)).view(np.uint32)
    for number, name in enumerate(names):
        whole = np.zeros(m.threads, np.uint32)
        whole[part] = stored[:, number]
        m.write(name, whole, group)


_ELEMENTS = {"s8": "i8", "s32": "i32", "tf32": "f32"}


def _from_shared(m: Cta, operand: str, rows: tuple[int, Attribute, bool], thread: int) -> Array:
    count, element, turned = rows
    size = byte_size(element)
    word = int(m.raw(operand, 64)[thread])
    at = MatrixDescriptor.decode(word).addresses(count, 32 // size, element, turned)
    if at.min() < 0 or at.max() + size > len(m.shared.data):
        raise BadAccess("a matrix operand lies outside of shared memory")
    data = m.shared.data[at[..., None] + np.arange(size)]
    return decode(np.ascontiguousarray(data).view(storage_dtype(element))[..., 0], element)


def _from_registers(m: Cta, operand: str, element: Attribute, part: slice) -> Array:
    words = np.stack([m.raw(name, 32)[part] for name in split(operand.strip("{}"))], axis=1)
    held = decode(np.ascontiguousarray(words).view(storage_dtype(element)), element)
    return from_fragment(held.reshape(GROUP, -1), byte_size(element))


def _nothing(m: Cta, i: Instruction, mask: Array) -> None:
    del m, i, mask


ENGINE_STEPS: tuple[tuple[str, Callable[[Cta, Instruction, Array], None]], ...] = (
    ("mbarrier.init", _init),
    ("mbarrier.arrive", _arrive),
    ("mbarrier.try_wait", _try_wait),
    ("bar.warp.sync", _nothing),
    ("bar.sync", _meet),
    ("bar.arrive", _meet),
    ("barrier.sync", _meet),
    ("barrier.arrive", _meet),
    ("cp.async.mbarrier.arrive", _copies_arrive),
    *((f"cp.async.bulk.tensor.{rank}d.shared", _bulk_load) for rank in range(1, 6)),
    *((f"cp.async.bulk.tensor.{rank}d.global", _bulk_store) for rank in range(1, 6)),
    ("cp.async.bulk.commit_group", _bulk_commit),
    ("cp.async.bulk.wait_group", _bulk_wait),
    ("cp.async.ca", _copy),
    ("cp.async.cg", _copy),
    ("cp.async.wait", _nothing),
    ("cp.async.commit_group", _nothing),
    ("wgmma.mma_async", _product),
    ("wgmma.", _nothing),
    ("fence.", _nothing),
    ("prefetch.", _nothing),
    ("setmaxnreg.", _nothing),
)
"""What each instruction does, by how its opcode begins: the first that fits."""


@cache
def _step_of(opcode: tuple[str, ...]) -> Callable[[Cta, Instruction, Array], None] | None:
    text = ".".join(opcode)
    return next((step for name, step in ENGINE_STEPS if text.startswith(name)), None)


class WholeCta(Cta):
    """A CTA with its engines."""

    def _note(self, instruction: Instruction, mask: Array) -> None:
        step = _step_of(instruction.opcode)
        if step is None:
            raise Unsupported(instruction.text)
        step(self, instruction, mask)
