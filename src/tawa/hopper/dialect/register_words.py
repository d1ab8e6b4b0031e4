"""Operands of warps' products that threads hold, as the words that instructions take.

A fragment in the layout `Product.operand` has the elements of an instruction's step along K one
after the other, then those of the next step, then those of the next rows (of A) or columns (of B).
"""

from __future__ import annotations

from tawa.base.warp_matrix import Product


def held_word(product: Product, name: str, block: str, k: str, step: int, half: int) -> str:
    """The C++ text of a word of the fragment `name`.

    `block` counts 8 rows of A or columns of B, batches outermost; the instruction begins at element
    `k` of K and `step` steps; `half` is the word's half of its step.
    """
    steps = product.inner // product.step
    at = f"({k}) / {product.step} + {step} + {steps} * ({block})"
    first = f"({half} + {product.registers[1]} * ({at})) * {product.packed}"
    if product.packed == 1:
        return f"bit_cast<u32>({name}[{first}])"
    if product.packed == 2:
        return f"pair({name}[{first}], {name}[{first} + 1])"
    return f"quad({name} + {first})"
