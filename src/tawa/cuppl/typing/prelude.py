"""The signatures of CuPPL's built-ins, written in the language itself."""

from __future__ import annotations

from tawa.cuppl.distributions import DISTRIBUTIONS

__all__ = ["HIDDEN", "MEMO_TABLE", "MEMO_WITH", "PRELUDE", "SCALAR_FUNCTIONS"]

MEMO_TABLE, MEMO_WITH = "memo'table", "memo'with"
HIDDEN = {"memo_table'": MEMO_TABLE, "memo_with'": MEMO_WITH}
"""What some built-ins are called: as no program can write, so none redefines them."""

_ARITHMETIC = """
val (+) : 'a -> 'a -> 'a where num 'a
val (-) : 'a -> 'a -> 'a where num 'a
val (*) : 'a -> 'a -> 'a where num 'a
val (/) : float -> float -> float
val (//) : int -> int -> int
val (%) : int -> int -> int
val (**) : float -> float -> float
val negate : 'a -> 'a where num 'a
val not : bool -> bool
val (==) : 'a -> 'a -> bool
val (!=) : 'a -> 'a -> bool
val (<) : 'a -> 'a -> bool where num 'a
val (<=) : 'a -> 'a -> bool where num 'a
val (>) : 'a -> 'a -> bool where num 'a
val (>=) : 'a -> 'a -> bool where num 'a
val min : 'a -> 'a -> 'a where num 'a
val max : 'a -> 'a -> 'a where num 'a
val abs : 'a -> 'a where num 'a
val float : int -> float
## Toward zero.
val truncate : float -> int
## Largest integer not above.
val floor : float -> int
"""

SCALAR_FUNCTIONS = {
    "sqrt": "sqrt",
    "exp": "exp",
    "log": "log",
    "log1p": "log1p",
    "expm1": "expm1",
    "sin": "sin",
    "cos": "cos",
    "tan": "tan",
    "atan": "atan",
    "tanh": "tanh",
    "sigmoid": "sigmoid",
    "lgamma": "lgamma",
    "digamma": "digamma",
    "erf": "erf",
    "erfc": "erfc",
    "normal_cdf": "normal_cdf",
    "normal_quantile": "normal_quantile",
    "detach": "detached",
}
"""Functions of one float: name in the language -> native (or operation)."""

_VECTORS = """
## Number of elements.
val length : vector['a] -> int
## `tabulate n f` is `[f 0, ..., f (n - 1)]`, evaluated from left to right.
val tabulate : int -> (int -> 'a) -> vector['a]
## `fold f z v`: from left to right.
val fold : ('b -> 'a -> 'b) -> 'b -> vector['a] -> 'b
## `range_fold f z n` folds over 0, ..., n - 1 without making a vector.
val range_fold : ('b -> int -> 'b) -> 'b -> int -> 'b
## Part of a vector: `slice first count v`.
val slice : int -> int -> vector['a] -> vector['a]
## Two vectors, one after the other.
val (++) : vector['a] -> vector['a] -> vector['a]
## The sum of the products of two vectors' elements.
val dot : vector[float] -> vector[float] -> float
## The Cholesky factor of a symmetric n * n matrix, row by row: `cholesky n matrix`.
val cholesky : int -> vector[float] -> vector[float]
"""

_MATRICES = """
## `matrix_of rows columns v` has the elements of `v`, row by row.
val matrix_of : int -> int -> vector[float] -> matrix
val rows : matrix -> int
val columns : matrix -> int
## The elements of a matrix, row by row.
val entries : matrix -> vector[float]
## `entry m i j` is the element in row i and column j, both from 0.
val entry : matrix -> int -> int -> float
## The product of a matrix with a matrix or a vector.
val (@) : matrix -> 'a -> 'a where column 'a
val transpose : matrix -> matrix
## The lower triangular L with `L @ transpose L` a symmetric positive definite matrix.
val cholesky_factor : matrix -> matrix
## `solve_lower l b` is x with `l @ x == b`, for a lower triangular `l`.
val solve_lower : matrix -> 'a -> 'a where column 'a
## `solve_upper u b` is x with `u @ x == b`, for an upper triangular `u`.
val solve_upper : matrix -> 'a -> 'a where column 'a
"""

_PROBABILITY = """
## Draw from a distribution.
val sample : dist['a] -> 'a
## Condition on a value drawn from a distribution.
val observe : dist['a] -> 'a -> ()
## Multiply the weight of this run by `exp w`.
val factor : float -> ()
## Log density (or log probability) of a value.
val log_density : dist['a] -> 'a -> float
## The values of a finite integer distribution are 0 .. support_size - 1 (plus its lower bound).
val support_size : dist[int] -> int
## A version of the function that remembers its results within a run.
val mem : ('a -> 'b) -> 'a -> 'b
## What `letrec f = mem (...)` means: a new table, and a function that uses it.
val memo_table' : () -> int
val memo_with' : int -> ('a -> 'b) -> 'a -> 'b
## Stop the whole inference with an error.
val fail : string -> 'a
"""

_CONTROL = """
## A new mark for `reset` and `shift`; `'r` is the type of the answers.
val prompt : () -> prompt['r]
## Run a function; a `shift` to the same prompt inside captures up to here.
val reset : prompt['r] -> (() -> 'r) -> 'r
## Capture the rest of the program up to the `reset`, as a function that can be called many times.
val shift : prompt['r] -> (('a -> 'r) -> 'r) -> 'a
"""


def _type_text(name: str) -> str:
    return name if " " not in name else "vector[" + name.split()[1] + "]"


def _distributions() -> str:
    lines: list[str] = []
    for family in DISTRIBUTIONS.values():
        arrows = "".join(f"{_type_text(kind)} -> " for _, kind in family.parameters)
        names = ", ".join(name for name, _ in family.parameters)
        lines.append(f"## {family.name} distribution ({names}); needs {family.requirement}.")
        lines.append(f"val {family.stem} : {arrows}dist[{_type_text(family.value)}]")
    return "\n".join(lines)


def _functions() -> str:
    return "\n".join(f"val {name} : float -> float" for name in SCALAR_FUNCTIONS)


PRELUDE = "\n".join(
    (
        _ARITHMETIC,
        _functions(),
        _VECTORS,
        _MATRICES,
        _PROBABILITY,
        _CONTROL,
        _distributions(),
    )
)
"""The whole prelude."""
