"""C = A @ B for matrices that lie in memory either way round: kernel, configurations, `matmul`.

    from tawa.kernels.gemm import matmul

    c = matmul(a, b)

The kernel is sequential. A configuration is a tile and launch options;
[gemm_configurations](gemm_configurations.py) chooses one by the sizes. Where few tiles have a long
K, programs share it, and a second kernel adds their parts up, in the same order each time.
"""

from __future__ import annotations

from typing import Any

import tawa
from tawa.base.user_frames import entry
from tawa.kernels.gemm_configurations import (
    Configuration,
    Product,
    configuration,
    configurations,
)
from tawa.kernels.gemm_kernels import add_parts, gemm
from tawa.kernels.gemm_operands import empty, matrices, strides, type_name
from tawa.kernels.gemm_plans import Finish, Plan, plan

__all__ = [
    "Configuration",
    "MatrixTypesDiffer",
    "NotAMatrix",
    "NothingToAdd",
    "OutputTypeUnknown",
    "Product",
    "SizesDoNotMatch",
    "add_parts",
    "configuration",
    "configurations",
    "gemm",
    "matmul",
    "reference",
]

PLANS = 4096
"""Plans that are kept, one for each way in which three arrays lie."""

_plans: dict[Any, Plan] = {}


class OutputTypeUnknown(tawa.TawaError):
    """`matmul` was given no output, and the inputs' element type does not name one."""

    explanation = (
        "The result of 16- and 32-bit floating-point inputs has their type. For 8-bit inputs pass "
        "`out`: int32 for int8, a 16- or 32-bit floating-point type for fp8."
    )
    example = """
import numpy as np
from tawa.kernels.gemm import matmul

a = np.ones((64, 64), np.int8)
matmul(a, a)
"""


class NothingToAdd(tawa.TawaError):
    """`matmul` was to add a multiple of what `out` held, and was given no `out`."""

    explanation = "`matmul(a, b, out, beta=x)` writes A @ B + x C, where C is what `out` held."
    example = """
import numpy as np
from tawa.kernels.gemm import matmul

a = np.ones((64, 64), np.float16)
matmul(a, a, beta=1.0)
"""


class SizesDoNotMatch(tawa.TawaError):
    """The matrices given to `matmul` do not fit each other."""

    explanation = "`matmul(a, b, out)` takes matrices of M x K, K x N and M x N elements."
    example = """
import numpy as np
from tawa.kernels.gemm import matmul

matmul(np.ones((64, 32), np.float16), np.ones((64, 32), np.float16))
"""


class NotAMatrix(tawa.TawaError):
    """`matmul` was given something that is no array."""

    explanation = "`matmul` takes arrays of any library: PyTorch's, CuPy's, JAX's, NumPy's."
    example = """
from tawa.kernels.gemm import matmul

matmul([[1.0]], [[1.0]])
"""


class MatrixTypesDiffer(tawa.TawaError):
    """The two matrices given to `matmul` have elements of different types."""

    explanation = "Matrix instructions multiply elements of one type, or of two types of fp8."
    example = """
import numpy as np
from tawa.kernels.gemm import matmul

matmul(np.ones((64, 64), np.float16), np.ones((64, 64), np.float32))
"""


@entry
def matmul(
    a: Any,
    b: Any,
    out: Any = None,
    config: Configuration | None = None,
    *,
    bias: Any = None,
    alpha: float = 1.0,
    beta: float = 0.0,
) -> Any:
    """`alpha` A @ B, written to `out` (made if not given) and returned.

    `a` [M, K] and `b` [K, N] are arrays of any library, or batches of them along a first of three
    dimensions; NumPy's run in the simulator. Those that the hardware can copy blocks of
    (contiguous along one dimension, with rows of whole 16 bytes) are read where they lie, others
    are copied first, or, where that takes longer, read element by element. `bias` [N] is added to
    each row, and `beta` times what `out` held; with `beta` 0 that is not read. What is launched is
    worked out once for arrays that lie alike. Raises SizesDoNotMatch, MatrixTypesDiffer,
    OutputTypeUnknown, NothingToAdd, NotAMatrix, and the errors of `tawa.TensorDescriptor`.
    """
    if out is None:
        if beta:
            raise NothingToAdd(
                "`beta` scales what `out` held, and there is no `out`", hint="pass out="
            )
        out = _output(a, _shape(a, b))
    more: dict[str, Any] = {}
    if bias is not None:
        more |= {"bias": bias, "bias_stride": strides(bias)[-1]}
    if alpha != 1:
        more["alpha"] = float(alpha)
    if beta:
        more["beta"] = float(beta)
    added = bias is not None and bias.shape
    key = matrices(a), matrices(b), matrices(out), config, beta != 0, added
    found = _plans.get(key)
    if found is None:
        shape = _shape(a, b, out)
        _require_types(a, b)
        if bias is not None and tuple(bias.shape) != shape[-1:]:
            raise SizesDoNotMatch(
                "the bias does not fit the result",
                expected=f"{shape[-1]} elements",
                found="x".join(map(str, bias.shape)),
            )
        found = plan(*key[:3], config, Finish(adds=beta != 0))
        if len(_plans) >= PLANS:
            _plans.clear()
        _plans[key] = found
    found(a, b, out, more)
    return out


def reference(a: Any, b: Any) -> Any:
    """A @ B, by the arrays' own library."""
    return a @ b


def _shape(*arrays: Any) -> tuple[int, ...]:
    """The shape of the result of `a` and `b`; a third array has to have it."""
    for x in arrays:
        if not hasattr(x, "shape"):
            raise NotAMatrix(
                "a matrix of the product is not an array",
                expected="an array of PyTorch, CuPy, JAX or NumPy",
                found=f"a value of type {type(x).__name__}",
            )
    found: list[tuple[int, ...]] = [tuple(x.shape) for x in arrays]
    if {len(shape) for shape in found} <= {2, 3}:
        (*batch_a, m, k), (*batch_b, depth, n) = found[:2]
        shape = *(batch_a or batch_b), m, n
        batches = not batch_a or not batch_b or batch_a == batch_b
        if depth == k and batches and found[2:] in ([], [shape]):
            return shape
    raise SizesDoNotMatch(
        "these matrices do not fit each other",
        expected="M x K, K x N and M x N elements, or batches of them",
        found=", ".join("x".join(map(str, shape)) for shape in found),
        hint="as many columns in the first as rows in the second",
    )


def _require_types(a: Any, b: Any) -> None:
    """Raise `MatrixTypesDiffer` where no matrix instruction has these operands."""
    types = [type_name(x.dtype) for x in (a, b)]
    if types[0] != types[1] and not all(name.startswith("float8") for name in types):
        raise MatrixTypesDiffer(
            "these matrices have elements of different types",
            expected="one type, or two types of fp8",
            found=" and ".join(types),
            hint="convert one of them",
        )


def _output(a: Any, shape: tuple[int, ...]) -> Any:
    """An array for the result, of the library and type of `a`."""
    if type_name(a.dtype) not in ("float16", "bfloat16", "float32"):
        raise OutputTypeUnknown(
            "the result of 8-bit matrices has no type of its own",
            expected="an `out` array",
            found=f"inputs of type {type_name(a.dtype)}",
            hint="pass out=, of int32 for int8 and of a wider float type for fp8",
        )
    return empty(a, shape)
