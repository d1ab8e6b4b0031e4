"""Attention as an operator of PyTorch, with the arguments of `scaled_dot_product_attention`.

    from tawa.kernels.torch_attention import scaled_dot_product_attention

    o = scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

The operator is `torch.ops.tawa.attention`. It works under `torch.compile` (as one opaque call) and
in CUDA graphs, once its kernel is compiled: call it once before the capture. Needs the extra
`tawa[torch]`; nothing else of the package imports PyTorch.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from tawa.kernels.attention import attention
from tawa.kernels.attention_arguments import (
    AttentionOptionNotSupported,
    AttentionSizesDoNotMatch,
    make_output,
    problem_of,
)
from tawa.kernels.attention_kernel import masked

torch: Any = import_module("torch")

SCHEMA = (
    "(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.0, "
    "bool is_causal=False, float? scale=None, bool enable_gqa=False) -> Tensor"
)
NUMPY_VIEWS = {"bfloat16": "int16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}
"""Types in which PyTorch hands over elements that NumPy itself does not have."""


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """softmax(scale query key^T + mask) value, as `torch.nn.functional` has it.

    Arguments are [batch, heads, rows, D] tensors (or without batch) of fp16 or bf16 on a GPU, in
    any memory order: views that the copy engine can read (D contiguous, other strides multiples of
    16 bytes) are read in place, others are copied. Tensors in the host's memory run in the
    simulator. The result lies in memory as `query` does.

    - `is_causal`: row i sees keys 0 to i (aligned top-left), whatever the lengths.
    - `attn_mask`: a tensor that broadcasts to [batch, heads, queries, keys]: bools say which keys
      count, numbers are added to the scores. A row without keys gives 0.
    - `enable_gqa`: fewer heads of keys and values than of queries, each for consecutive ones.

    Raises AttentionOptionNotSupported for dropout and, in a backward pass, for gradients, and the
    errors of `tawa.kernels.attention`.
    """
    return torch.ops.tawa.attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa
    )


@dataclass(frozen=True)
class _Asked:
    """The operator's arguments after query, key and value, as its schema has them."""

    attn_mask: Any = None
    dropout_p: float = 0.0
    is_causal: bool = False
    scale: float | None = None
    enable_gqa: bool = False


def _attention(query: Any, key: Any, value: Any, *rest: Any, **named: Any) -> Any:
    """What the operator does."""
    asked = _Asked(*rest, **named)
    attn_mask = asked.attn_mask
    _check(query, key, asked)
    out = make_output(query, problem_of(query, key, value))
    options: dict[str, Any] = {
        "causal": asked.is_causal, "alignment": "top-left", "scale": asked.scale
    }  # fmt: skip
    arrays = [_readable(x) for x in (query, key, value)]
    mask = None
    if attn_mask is not None:
        mask = _broadcast(attn_mask, (*query.shape[:-1], key.shape[-2]))
        strides = mask.stride() if mask.dim() == 4 else (0, *mask.stride())
        options["score_mod"] = masked
        options["captured"] = (_on_host(mask) if mask.device.type == "cpu" else mask, *strides)
    q, k, v, o = (_on_host(x) if x.device.type == "cpu" else x for x in (*arrays, out))
    attention(q, k, v, o, **options)
    return out


def _check(query: Any, key: Any, asked: _Asked) -> None:
    """Raise for what the operator has not, or what `torch.nn.functional` refuses as well."""
    if asked.dropout_p:
        raise AttentionOptionNotSupported(
            "attention has no dropout", expected="dropout_p=0", found=f"dropout_p={asked.dropout_p}"
        )
    if asked.attn_mask is not None and asked.is_causal:
        raise AttentionOptionNotSupported(
            "a mask and `is_causal` together",
            expected="one of them",
            hint="put the causal part into the mask",
        )
    if query.dim() > 2 and query.shape[-3] != key.shape[-3] and not asked.enable_gqa:
        raise AttentionSizesDoNotMatch(
            "queries and keys have different numbers of heads",
            expected=f"{query.shape[-3]} heads of keys, or enable_gqa=True",
            found=f"{key.shape[-3]} heads of keys",
        )


def _readable(tensor: Any) -> Any:
    """The tensor if the copy engine can read it where it lies, else a contiguous copy."""
    size = tensor.element_size()
    places = zip(tensor.stride()[:-1], tensor.shape[:-1], strict=True)
    aligned = all(s > 0 and s * size % 16 == 0 for s, n in places if n > 1)
    fits = aligned and tensor.stride(-1) == 1 and tensor.data_ptr() % 16 == 0
    return tensor if fits else tensor.clone(memory_format=torch.contiguous_format)


def _broadcast(mask: Any, shape: tuple[int, ...]) -> Any:
    """A view of the mask with an element for every score."""
    try:
        return mask.expand(shape)
    except RuntimeError as error:
        raise AttentionSizesDoNotMatch(
            "this mask does not fit the scores",
            expected=f"a tensor that broadcasts to {'x'.join(map(str, shape))}",
            found="x".join(map(str, mask.shape)),
        ) from error


def _on_host(tensor: Any) -> Any:
    """A host tensor's memory as a NumPy array of the same element type."""
    name = str(tensor.dtype).removeprefix("torch.")
    plain = NUMPY_VIEWS.get(name)
    if plain is None:
        return tensor.detach().numpy()
    import_module("ml_dtypes")  # makes the name known to NumPy
    return tensor.detach().view(getattr(torch, plain)).numpy().view(np.dtype(name))


def _fake(query: Any, key: Any, value: Any, *rest: Any, **named: Any) -> Any:
    """The result's shape, type and strides, from shapes that may be symbols."""
    _check(query, key, _Asked(*rest, **named))
    return make_output(query, problem_of(query, key, value, symbolic=True))


def _backward(context: Any, gradient: Any) -> Any:
    """There is none yet: say so when it is asked for."""
    raise AttentionOptionNotSupported(
        "attention has no backward pass yet",
        expected="inputs without gradients",
        hint="call it under torch.no_grad(), or use torch.nn.functional for training",
    )


OPERATOR: Any = torch.library.custom_op(
    "tawa::attention", _attention, mutates_args=(), schema=SCHEMA
)
"""`torch.ops.tawa.attention`."""
OPERATOR.register_fake(_fake)
OPERATOR.register_autograd(_backward)
