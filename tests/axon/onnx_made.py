"""What the tests of ONNX models make models of."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, ValueInfoProto, helper, numpy_helper

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
node = helper.make_node
OPSETS = [helper.make_opsetid("", 18), helper.make_opsetid("my", 1)]


def value(name: str, sizes: list[int | str] | None, element: int = FLOAT) -> ValueInfoProto:
    """An input or output; of unknown rank without sizes."""
    return helper.make_tensor_value_info(name, element, sizes)


def constant(name: str, numbers: object, type_: type = np.int64) -> TensorProto:
    """An initializer."""
    return numpy_helper.from_array(np.array(numbers, type_), name)
