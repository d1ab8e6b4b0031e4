"""What can be wrong with a program that is compiled for a GPU."""

from __future__ import annotations

from tawa.axon.typing.errors import AxonError


class NotForGpu(AxonError):
    """A part of a program has no GPU kernel."""

    explanation = (
        "These are not compiled for the GPU: `while` with a condition on computed values, `if` "
        "with one that chooses a function, f64 matrix products, and tensors of 2^31 or more "
        "numbers. "
        "Nothing falls back to the CPU by itself. Call the function without `compile`, or move "
        "that part out of it."
    )
    example = (
        "import numpy as np\n"
        "from tawa import axon\n"
        "text = 'def f x = while (fn y -> sum y < 9.0) (fn y -> y + y) x'\n"
        "f = axon.compile(axon.load(text)['f'])\n"
        "f(np.ones(3, np.float32))"
    )


class BadPrecision(AxonError):
    """A precision was asked for that products do not have."""

    explanation = (
        "`precision` says how products of f32 matrices are computed: `f32` by three tf32 products "
        "(about 22 bits), `tf32` by one (11 bits). It changes nothing for 16-bit matrices."
    )
    example = (
        "from tawa import axon\naxon.compile(axon.load('def f x w = x @ w')['f'], precision='fp8')"
    )
