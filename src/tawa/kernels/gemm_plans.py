"""What `matmul` launches for matrices that lie in some way, worked out once for all that lie so.

Which configuration, which operands are copied first, descriptors' shapes and the kernels'
constants follow from sizes, strides and alignment; what is left to do for each call is to make
descriptors and to launch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import Any, TypeAlias

import tawa
import tawa.language as tl
from tawa.kernels.gemm_configurations import (
    LINE,
    Configuration,
    Product,
    by_elements,
    copying,
    fastest,
)
from tawa.kernels.gemm_kernels import add_parts, gemm, gemm_by_elements
from tawa.kernels.gemm_operands import (
    PIECE,
    Matrices,
    empty,
    packer,
    packer_of_two,
    transposed,
    turner,
)

Plan: TypeAlias = Callable[[Any, Any, Any, dict[str, Any]], object]
"""Multiplies two arrays into a third, which lie as those that it was made for.

The last argument has the kernels' `alpha`, `beta`, `bias` and `bias_stride`, those it was made for.
"""

ADDED_ROWS, ADDED_COLUMNS = 8, 128
"""Rows and columns of the result whose parts one program adds up."""
NEAR = 2**31 // 256
"""Strides by which a tile's elements are less than 2^31 elements apart."""
OF_STORED_BLOCKS = ("staging", "stream_stores")
"""Options for results that the hardware stores by blocks."""


@dataclass(frozen=True)
class Finish:
    """What becomes of a product's sums: `adds` to what C held, a `bias_of_rows`."""

    adds: bool = False
    bias_of_rows: bool = False

    @property
    def constants(self) -> dict[str, Any]:
        """The kernels' parameters."""
        return {"BIAS_OF_ROWS": True} if self.bias_of_rows else {}


PLAIN = Finish()
NO_MORE: dict[str, Any] = {}
"""No scale, no bias."""


@dataclass(frozen=True)
class Task:
    """Matrices that the kernels can read as they lie, their product, and how it is computed."""

    a: Matrices
    b: Matrices
    out: Matrices
    product: Product
    chosen: Configuration
    finish: Finish


def plan(
    a: Matrices,
    b: Matrices,
    out: Matrices,
    config: Configuration | None = None,
    finish: Finish = PLAIN,
) -> Plan:
    """What multiplies matrices that lie so, with this configuration or the fastest."""
    if not prod(out.shape):
        return _nothing
    if out.lie.turned:
        turned = replace(finish, bias_of_rows=not finish.bias_of_rows)
        swapped = plan(b.transposed, a.transposed, out.transposed, config, turned)
        return lambda a, b, out, more: swapped(transposed(b), transposed(a), transposed(out), more)
    together = len(out.shape) == 3 and len(b.shape) == 2 and a.stacked and out.stacked
    if together and not finish.bias_of_rows:
        flat = plan(a.flat, b, out.flat, config, finish)
        return lambda a, b, out, more: flat(_flat(a), b, _flat(out), more)
    lying = a.lie.describable, b.lie.describable
    loaded_a, loaded_b = a if lying[0] else a.packed, b if lying[1] else b.packed
    product = _product(loaded_a, loaded_b, out, finish)
    chosen = config or fastest(product)
    copied = [x for x, as_it_is in ((a, lying[0]), (b, lying[1])) if not as_it_is]
    direct = config or by_elements(product)
    longest = chosen.microseconds(product) + copying(
        (prod(x.shape) * x.size for x in copied), product.chip
    )
    near = max(abs(step) for x in (a, b) for step in x.strides[-2:]) < NEAR
    if near and direct.elements and copied and direct.microseconds(product) < longest:
        return _by_elements(a, b, out, direct, finish)
    multiply = _of_loadable(Task(loaded_a, loaded_b, out, product, chosen, finish))
    if not copied:
        return multiply
    if not any(lying):
        pack_both = packer_of_two(a, b)
        return lambda a, b, out, more: multiply(*pack_both(a, b), out, more)
    pack = packer(copied[0])
    if lying[0]:
        return lambda a, b, out, more: multiply(a, pack(b), out, more)
    return lambda a, b, out, more: multiply(pack(a), b, out, more)


def _nothing(a: Any, b: Any, out: Any, more: dict[str, Any]) -> None:
    """Multiplies matrices without elements."""


def _as_it_is(array: Any) -> Any:
    return array


def _flat(array: Any) -> Any:
    """The rows of all matrices of a batch, where they lie."""
    return array.reshape(-1, array.shape[2])


def _product(a: Matrices, b: Matrices, out: Matrices, finish: Finish = PLAIN) -> Product:
    """The product of matrices that lie as these do."""
    along_k = a.size != 2  # all that the matrix instructions take of other types
    *batch, m, n = out.shape
    return Product(
        *(m, n, a.shape[-1], a.size, out.size),
        batch=prod(batch),
        columns=8 if b.lie.turned else LINE // a.size,
        aligned=(a.lie.aligned, b.lie.aligned),
        transposed=(along_k and a.lie.turned, along_k and not b.lie.turned),
        chip=gemm.chip,
        by_elements=finish.adds or not out.lie.storable,
    )


def _of_loadable(of: Task) -> Plan:
    """The product of matrices whose blocks the hardware can load."""
    a, b, chosen = of.a, of.b, of.chosen
    turn_a, turn_b = _as_it_is, _as_it_is
    if chosen.copied[0]:
        turn_a, a = turner(a), a.along_rows
    if chosen.copied[1]:
        turn_b, b = turner(b.transposed), b.transposed.along_rows.transposed
    made = _whole if chosen.split == 1 else _in_parts
    multiply = made(replace(of, a=a, b=b))
    if not any(chosen.copied):
        return multiply
    return lambda a, b, out, more: multiply(turn_a(a), turn_b(b), out, more)


def _whole(of: Task) -> Plan:
    """The product by one kernel; each program has a tile of it."""
    a, b, out, product, chosen = of.a, of.b, of.out, of.product, of.chosen
    options: dict[str, Any] = dict(chosen.options)
    if product.by_elements:
        batch_stride, row_stride, column_stride = out.steps
        steps = {"batch_stride": batch_stride, "row_stride": row_stride}
        options |= {**steps, "column_stride": column_stride}
        options = {name: options[name] for name in options if name not in OF_STORED_BLOCKS}
    stream_a, stream_b = chosen.streams(product)
    constants: dict[str, Any] = {
        "TRANSPOSE_A": a.lie.turned,
        "TRANSPOSE_B": b.lie.turned,
        "BLOCK_M": chosen.block_m,
        "BLOCK_N": chosen.block_n,
        "BLOCK_K": chosen.block_k,
        "GROUP_M": chosen.group_m,
        "ACCUMULATOR": _accumulator(a),
        "ALONG_N": chosen.along_n,
        "SPLIT": chosen.split,
        "STREAM_A": stream_a,
        "STREAM_B": stream_b,
        **of.finish.constants,
        **options,
    }
    batch = max(x.shape[0] if len(x.shape) == 3 else 1 for x in (a, b))
    sizes = product.m, product.n, product.k
    grid = *chosen.programs(product.m, product.n), batch * chosen.split
    blocks_of_a = _blocks(a, chosen.block_m, chosen.block_k)
    blocks_of_b = _blocks(b, chosen.block_k, chosen.block_n)
    if product.by_elements:
        return lambda a, b, out, more: gemm[grid](
            blocks_of_a(a), blocks_of_b(b), out, *sizes, **constants, **more
        )
    blocks_of_c = _blocks(out, chosen.block_m, chosen.block_n)
    return lambda a, b, out, more: gemm[grid](
        blocks_of_a(a), blocks_of_b(b), blocks_of_c(out), *sizes, **constants, **more
    )


def _blocks(x: Matrices, rows: int, columns: int) -> Callable[[Any], tawa.TensorDescriptor]:
    """What describes blocks of arrays that hold such matrices, as they lie."""
    block = [1] * (len(x.shape) - 2) + [rows, columns]
    if x.lie.turned:
        x, block[-2:] = x.transposed, [columns, rows]
    shape, strides = x.shape, x.strides
    return lambda array: tawa.TensorDescriptor(array, shape, strides, block)


def _in_parts(of: Task) -> Plan:
    """The product by programs that share tiles' K, and a kernel that adds their parts up."""
    *batch, m, n = of.out.shape
    whole = PIECE // 4
    pitch = tawa.cdiv(n, whole) * whole
    shape = prod(batch) * of.chosen.split, m, pitch
    held = Matrices(
        shape, (m * pitch, pitch, 1), 4, 0, "int32" if of.a.type == "int8" else "float32"
    )
    stored = replace(of.product, by_elements=False)
    multiply = _whole(replace(of, out=held, product=stored, finish=PLAIN))
    grid = tawa.cdiv(n, ADDED_COLUMNS), tawa.cdiv(m, ADDED_ROWS), prod(batch)
    fixed = m, n, pitch, *of.out.steps
    constants: dict[str, Any] = {
        "SPLIT": of.chosen.split,
        "ROWS": ADDED_ROWS,
        "COLUMNS": ADDED_COLUMNS,
        "launch_pdl": True,
    }
    constants |= of.finish.constants

    def run(a: Any, b: Any, out: Any, more: dict[str, Any]) -> None:
        parts = empty(out, shape, held.type)
        multiply(a, b, parts, NO_MORE)
        add_parts[grid](parts, out, *fixed, **constants, **more)

    return run


def _by_elements(
    a: Matrices, b: Matrices, out: Matrices, chosen: Configuration, finish: Finish
) -> Plan:
    """The product of matrices that lie anyhow, by one kernel that loads element by element."""
    *batch, m, n = out.shape
    grid = tawa.cdiv(m, chosen.block_m), tawa.cdiv(n, chosen.block_n), prod(batch)
    fixed = m, n, a.shape[-1], *a.steps, *b.steps, *out.steps
    constants: dict[str, Any] = {
        "BLOCK_M": chosen.block_m,
        "BLOCK_N": chosen.block_n,
        "BLOCK_K": chosen.block_k,
        "ACCUMULATOR": _accumulator(a),
        **finish.constants,
        **chosen.options,
    }
    return lambda a, b, out, more: gemm_by_elements[grid](a, b, out, *fixed, **constants, **more)


def _accumulator(a: Matrices) -> Any:
    return tl.int32 if a.type == "int8" else tl.float32
