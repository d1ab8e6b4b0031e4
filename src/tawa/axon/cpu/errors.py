"""What can be wrong with a program that is made an ONNX model."""

from __future__ import annotations

from tawa.axon.typing.errors import AxonError


class NotForOnnx(AxonError):
    """A part of a program is no part of an ONNX model."""

    explanation = (
        "The model is the program for given shapes: loops are unrolled, functions inlined. So a "
        "condition on computed values can't be decided, and a function can't be a result. Call "
        "the function without `compile`, or move that part out of it."
    )
    example = (
        "import numpy as np\n"
        "from tawa import axon\n"
        "text = 'def f x = if sum_all x > 0.0 then x else exp x'\n"
        "axon.compile(axon.load(text)['f'], device='cpu')(np.ones(3, np.float32))"
    )
