"""Every algorithm that cuBLASLt's heuristic proposes for a product, through its C interface.

PyTorch takes the first proposal. A user who searches gets the fastest, so both are peers.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import torch

PROPOSALS = 64
"""Algorithms that are asked for; the heuristic returns fewer."""
WORKSPACE = 64 * 2**20
"""Bytes that an algorithm may use beside its operands."""
COMPUTE_32F, OF_32F = 68, 0
TRANSPOSE_A, TRANSPOSE_B, MAX_WORKSPACE = 3, 4, 1
"""Numbers of cuBLAS's enumerations (cublas_api.h, cublasLt.h)."""
TYPES = {torch.float16: 2, torch.bfloat16: 14}


class Proposal(ctypes.Structure):
    """`cublasLtMatmulHeuristicResult_t`."""

    _fields_ = (
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


class Failed(Exception):
    """A call of cuBLASLt returned an error."""


@cache
def _library() -> tuple[Any, ctypes.c_void_p, torch.Tensor]:
    """The library that PyTorch has loaded, a handle, and a workspace."""
    torch.cuda.init()
    for version in (13, 12):
        try:
            library = ctypes.CDLL(f"libcublasLt.so.{version}")
            break
        except OSError:
            continue
    else:
        raise Failed("no cuBLASLt is loaded")
    handle = ctypes.c_void_p()
    _checked(library.cublasLtCreate(ctypes.byref(handle)))
    return library, handle, torch.empty(WORKSPACE, dtype=torch.uint8, device="cuda")


def _checked(status: int) -> None:
    if status:
        raise Failed(f"cuBLASLt returned {status}")


def _made(library: Any, kind: str, *args: Any) -> ctypes.c_void_p:
    found = ctypes.c_void_p()
    _checked(getattr(library, f"cublasLt{kind}Create")(ctypes.byref(found), *args))
    return found


def _layout(library: Any, type_: int, rows: int, columns: int) -> ctypes.c_void_p:
    sizes = ctypes.c_uint64(rows), ctypes.c_uint64(columns), ctypes.c_int64(rows)
    return _made(library, "MatrixLayout", type_, *sizes)


def _set(library: Any, kind: str, of: ctypes.c_void_p, name: int, value: Any) -> None:
    setter = getattr(library, f"cublasLt{kind}SetAttribute")
    _checked(setter(of, name, ctypes.byref(value), ctypes.c_size_t(ctypes.sizeof(value))))


def proposals(a: torch.Tensor, w: torch.Tensor, c: torch.Tensor) -> Iterator[Callable[[], None]]:
    """Works that write a [M, K] times w [N, K] transposed to c [M, N], the first choice first.

    All are contiguous. The library's matrices lie by columns: it is told to compute the transpose.
    """
    library, handle, workspace = _library()
    (m, k), n, type_ = a.shape, w.shape[0], TYPES[a.dtype]
    of_w, of_a, of_c = (_layout(library, type_, *shape) for shape in ((k, n), (k, m), (n, m)))
    product = _made(library, "MatmulDesc", COMPUTE_32F, OF_32F)
    _set(library, "MatmulDesc", product, TRANSPOSE_A, ctypes.c_int(1))
    _set(library, "MatmulDesc", product, TRANSPOSE_B, ctypes.c_int(0))
    wish = _made(library, "MatmulPreference")
    _set(library, "MatmulPreference", wish, MAX_WORKSPACE, ctypes.c_uint64(WORKSPACE))
    found, count = (Proposal * PROPOSALS)(), ctypes.c_int()
    described = handle, product, of_w, of_a, of_c, of_c
    _checked(
        library.cublasLtMatmulAlgoGetHeuristic(
            *described, wish, PROPOSALS, found, ctypes.byref(count)
        )
    )
    one, zero = ctypes.c_float(1.0), ctypes.c_float(0.0)
    pointers = [ctypes.c_void_p(x.data_ptr()) for x in (w, a, c, workspace)]
    of = ctypes.byref
    for proposal in found[: count.value]:
        args = (
            *(handle, product, of(one), pointers[0], of_w, pointers[1], of_a, of(zero)),
            *(pointers[2], of_c, pointers[2], of_c, of(proposal), pointers[3]),
            *(ctypes.c_size_t(WORKSPACE), ctypes.c_void_p(0)),
        )
        yield lambda args=args, kept=(a, w, c, proposal): _checked(library.cublasLtMatmul(*args))
