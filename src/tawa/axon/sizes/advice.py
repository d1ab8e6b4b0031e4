"""What to do about two shapes that don't fit, where the shapes themselves suggest it."""

from __future__ import annotations

from itertools import permutations

from tawa.axon.sizes.dims import Dim
from tawa.axon.sizes.shapes import Shape, tensor_parts
from tawa.functional.terms import Con, Term

__all__ = ["advice"]

MOST_AXES = 5
"""Of shapes whose axes are tried in every order."""

TRANSPOSE = "`transpose` swaps the last two axes"
Dims = tuple[Dim, ...]


def advice(what: str, expected: Term, found: Term) -> str | None:
    """What to do about a demand (`argument 2 of ...`) that two types or shapes don't meet."""
    left, right = _shape(expected), _shape(found)
    if what.endswith("`reshape`") and not (left and right):
        return "`reshape` keeps how many numbers there are; `_` is a size that follows"
    if left is None or right is None:
        return None
    have = right.dims
    if what == "argument 2 of `@`" and have is not None and len(have) == 1:
        return "`@` takes a matrix on its right; with a vector, `sum (x * v)`"
    if left.dims is not None and have is not None:
        if len(left.dims) != len(have):
            return _other_rank(what, left.dims, have)
        return _reordered(left.dims, have)
    tail = _last(left)
    if have is not None and tail is not None and len(have) >= 2 and _turned(tail, have):
        return TRANSPOSE
    return None


def _shape(term: Term) -> Shape | None:
    parts = tensor_parts(term) if isinstance(term, Con) else None
    if parts is not None:
        return parts[1]
    return term if isinstance(term, Shape) else None


def _last(shape: Shape) -> Dims | None:
    """The last two sizes of a shape, if they are sizes."""
    one, other = shape.items[-2:] if len(shape.items) >= 2 else (None, None)
    return (one, other) if isinstance(one, Dim) and isinstance(other, Dim) else None


def _turned(wanted: Dims, given: Dims) -> bool:
    """Whether the last two sizes fit the other way round, and not as they are."""
    return _fits(wanted, (given[-1], given[-2])) and not _fits(wanted, given[-2:])


def _fits(wanted: Dims, given: Dims) -> bool:
    """Whether sizes may be the same, and two numbers among them are."""
    pairs = list(zip(wanted, given, strict=True))
    known = [(a, b) for a, b in pairs if a.constant is not None and b.constant is not None]
    return bool(known) and all(a == b for a, b in known)


def _reordered(wanted: Dims, given: Dims) -> str | None:
    if len(given) < 2 or len(given) > MOST_AXES:
        return None
    if wanted[:-2] == given[:-2] and _turned(wanted[-2:], given):
        return TRANSPOSE
    if any(d.constant is None for d in (*wanted, *given)):
        return None
    for order in permutations(range(len(given))):
        if tuple(given[k] for k in order) == wanted:
            names = "abcde"[: len(given)]
            moved = " ".join(names[k] for k in order)
            return f'`rearrange{{"{" ".join(names)} -> {moved}"}}` puts the axes in this order'
    return None


def _other_rank(what: str, wanted: Dims, given: Dims) -> str | None:
    longer, shorter = (wanted, given) if len(wanted) > len(given) else (given, wanted)
    missing = len(longer) - len(shorter)
    if what.startswith("`") and shorter:  # an operator that broadcasts
        for start in range(missing):
            if longer[start : start + len(shorter)] == shorter:
                behind = missing - start
                return (
                    "broadcasting lines up the last axes: "
                    f"`expand{{-1}}` adds one of size 1 behind ({behind} here)"
                )
        return None
    if missing > 1:
        return None
    if longer is wanted:
        return "`expand{axis}` adds an axis of size 1"
    if any(d.constant == 1 for d in given):
        return "`squeeze{axis}` takes out an axis of size 1"
    return "`x.[i]` takes one slice of the first axis, `sum` and `mean` reduce an axis"
