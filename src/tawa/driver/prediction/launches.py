"""The predicted time of a kernel's launch: compiled for its arguments, replayed in the model.

Of arrays only the sizes are used, wherever they lie, so that nothing is launched or copied. But for
this: lengths and the like that a kernel's loops depend on are read, of arrays in the host's memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tawa.ir.effects import PRODUCTS, touches
from tawa.ir.walking import every
from tawa.machine.chips import Chip
from tawa.runtime.arrays import ELEMENT_BYTES, HOST, is_array, view
from tawa.runtime.descriptor import TensorDescriptor, descriptor_of
from tawa.simulate import predict_launch

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from tawa.driver.compiled import Compiled
    from tawa.simulate import LaunchPrediction


def predict(
    compiled: Compiled,
    grid: Sequence[int],
    values: Sequence[Any],
    clock_ghz: float | None,
    target: Chip,
    module: ModuleOp | None = None,
    **shown: Any,
) -> LaunchPrediction:
    """How long a launch of a compiled kernel takes on a chip; `values` are its arguments.

    The clock is by default that of `clock_of`. `module` is the hopper level, if it is at hand;
    `shown` says what else is wanted of the replay (`predict_launch`).
    """
    sizes = [stand_in(value) for value in values]
    module = module or compiled.module("hopper")
    return predict_launch(
        module,
        grid,
        sizes,
        clock_ghz=clock_ghz or clock_of(module, target),
        target=target,
        ctas_per_multiprocessor=resident(compiled, target),
        **shown,
    )


def clock_of(module: ModuleOp, target: Chip) -> float:
    """The clock that a kernel is predicted at if none is given: a guess, since power is not known.

    With matrix instructions it is what the power limit leaves large products.
    """
    multiplies = any(touches(op, PRODUCTS) for op in every(module))
    return target.capped_ghz if multiplies else target.clock_ghz


def resident(compiled: Compiled, target: Chip) -> int | None:
    """CTAs of a kernel that share a multiprocessor; None where the assembler's log is empty."""
    spec = compiled.spec
    found = [f for f in compiled.assembled.functions if f.name == spec.entry]
    if not found or spec.cluster != (1, 1, 1) or spec.grid == "persistent":
        return None
    step = target.register_step
    registers = -(-max(1, found[0].registers) // step) * step
    return max(
        1,
        min(
            target.registers // (registers * spec.threads),
            target.ctas_with(spec.shared_bytes),
            target.threads // spec.threads,
            target.ctas,
        ),
    )


def stand_in(value: Any) -> Any:
    """What has the sizes of an array or a descriptor, zeros in memory of the host."""
    described = descriptor_of(value)
    if described is not None:
        if isinstance(described.base, np.ndarray):
            return described
        base = _empty(described.shape, described.element_type)
        of = described.shape, described.strides, described.block_shape, described.padding
        return TensorDescriptor(base, *of)
    if not is_array(value):
        return value
    seen = view(value)
    if seen.device == HOST and type(value).__module__ == "numpy":
        return value
    return _empty(seen.shape, seen.element_type)


def _empty(shape: Sequence[int], element_type: str) -> Any:
    dtype: Any = np.dtype(f"u{ELEMENT_BYTES[element_type]}")
    found: Any = np.zeros(tuple(shape), dtype)
    return found
