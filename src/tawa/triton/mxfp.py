"""PyTorch tensors of microscaling formats, as `triton.tools.mxfp` has them.

A block of 32 numbers of four bits shares a scale, a power of two of eight bits (OCP Microscaling
Formats 1.0). PyTorch has neither type, so both are kept as their codes.
"""

from __future__ import annotations

import importlib
import math
from typing import Any, Self

MAGNITUDES = 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0
"""What the three bits of E2M1 below the sign stand for."""

SIGN = 0b1000
BIAS, GREATEST, NAN = 127, 254, 255
"""Of E8M0: the code of 1, the code of the greatest power and what is no number."""


def _torch() -> Any:
    return importlib.import_module("torch")


class _Coded:
    """Codes of a format in `data`, a tensor of bytes of shape `size`.

    Made of the numbers in `data`, which are rounded, or with codes still to be drawn, of `size`.
    """

    def __init__(self, data: Any = None, size: Any = None, device: Any = None) -> None:
        if data is None and size is None:
            raise ValueError("give `data` or `size`")
        self.device = device if data is None else data.device
        self.size = tuple(size) if data is None else tuple(data.shape)
        if data is None:
            self.data = _torch().zeros(self.size, dtype=_torch().uint8, device=device)
        else:
            self.data = self._codes(data.to(_torch().float32))

    def _codes(self, values: Any) -> Any:
        """The codes of numbers."""
        raise NotImplementedError

    def to(self, dtype: Any) -> Any:
        """A plain tensor of the numbers."""
        raise NotImplementedError

    def _draw(self, first: int, last: int) -> Self:
        draw = _torch().randint
        self.data = draw(first, last + 1, self.size, dtype=_torch().uint8, device=self.device)
        return self


class MXFP4Tensor(_Coded):
    """Numbers of four bits (E2M1), one a byte until they are packed."""

    def random(self) -> Self:
        """Draw all codes alike."""
        return self._draw(0, 15)

    def _codes(self, values: Any) -> Any:
        """The nearest magnitude, of two the even one; what is beyond the last one is the last."""
        torch = _torch()
        magnitudes = torch.tensor(MAGNITUDES, device=values.device)
        middles = (magnitudes[1:] + magnitudes[:-1]) / 2
        size = values.abs().contiguous()
        below, upto = (torch.bucketize(size, middles, right=right) for right in (False, True))
        code = torch.where(below % 2 == 0, below, upto)  # they differ in the middle of two alone
        return torch.where(torch.signbit(values), code + SIGN, code).to(torch.uint8)

    def to(self, dtype: Any) -> Any:
        """A plain tensor of the numbers."""
        torch = _torch()
        values = torch.tensor([*MAGNITUDES, *(-m for m in MAGNITUDES)], device=self.data.device)
        return values[self.data.long()].to(dtype)

    def to_packed_tensor(self, dim: int) -> Any:
        """Two codes a byte along `dim`, the first in the low bits; an odd one has 0 beside it."""
        torch, codes = _torch(), self.data
        assert 0 <= dim < codes.ndim, f"there is no dimension {dim} of {codes.ndim}"
        if codes.shape[dim] % 2:
            codes = torch.cat([codes, torch.zeros_like(codes.narrow(dim, 0, 1))], dim)
        low, high = codes.unflatten(dim, (-1, 2)).unbind(dim + 1)
        return low | (high << 4)

    def unpack_packed_tensor(self, packed_tensor: Any, dim: int, original_shape: Any) -> Any:
        """The codes of `original_shape` that `to_packed_tensor` has packed along `dim`."""
        halves = packed_tensor & 0xF, packed_tensor >> 4
        codes = _torch().stack(halves, dim + 1).flatten(dim, dim + 1)
        return codes.narrow(dim, 0, original_shape[dim])


class MXScaleTensor(_Coded):
    """Powers of two as a byte (E8M0). Numbers are cut to the power that they hold."""

    def random(self, low: float | None = None, high: float | None = None) -> Self:
        """Draw all powers from `low` to `high` alike; all there are where nothing is given."""
        first = 0 if low is None else max(0, math.floor(math.log2(low)) + BIAS)
        last = GREATEST if high is None else min(GREATEST, math.floor(math.log2(high)) + BIAS)
        return self._draw(first, last)

    def _codes(self, values: Any) -> Any:
        """What is not above 0, and not finite, is no number."""
        torch = _torch()
        power = torch.frexp(values).exponent - 1 + BIAS
        number = torch.isfinite(values) & (values > 0)
        return torch.where(number, power.clamp(0, GREATEST), NAN).to(torch.uint8)

    def to(self, dtype: Any) -> Any:
        """A plain tensor of the powers."""
        torch = _torch()
        powers = torch.exp2(self.data.cpu().double() - BIAS)
        powers = powers.masked_fill(self.data.cpu() == NAN, math.nan)
        return powers.to(self.data.device, dtype)
