"""Weights of a function from files and state dicts, checked against its type.

A weight is a leaf of a parameter: an array. It has the name that the definition's pattern gives it
(`w1` in `(w1, b1)`); parts of what the pattern leaves whole are numbered (`block.0.1`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast

import numpy as np

from tawa.axon.running.call import Function
from tawa.axon.running.contract import Statics, type_of
from tawa.axon.running.trees import leaves_of
from tawa.axon.sizes.show import AxonPrinter
from tawa.axon.sizes.solver import AxonSolver
from tawa.axon.typing.errors import WeightMismatch
from tawa.base.errors import Note
from tawa.base.extras import require
from tawa.base.source import Span
from tawa.base.user_frames import entry
from tawa.functional import syntax as s
from tawa.functional.solver import Clash
from tawa.functional.terms import Con, Origin, Term

Names = Mapping[str, str] | tuple[Any, ...] | None
TRANSPOSED = ".T"
"""At the end of a name: the matrix lies with its axes in the other order."""


@dataclass(frozen=True)
class Leaf:
    """A weight: its own name, its type, and the name that a source has for it."""

    name: str
    type: Term
    source: str


@entry
def weights(
    function: Function, source: Any, names: Names = None, *, data: int = 1, strict: bool = True,
    **statics: int | tuple[int, ...],
) -> tuple[Any, ...]:  # fmt: skip
    """The first arguments of a function, all but the last `data`, from what a source has.

    `source` is the path of a `.safetensors` or `.npz` file, or a mapping from names to arrays or
    PyTorch tensors, as `state_dict()` gives. `names` says which of its names is which weight: as a
    mapping from the function's own names, or as a tuple nested as the weights are; `name.T` is a
    matrix that lies transposed, as PyTorch's layers keep theirs. Raises WeightMismatch, which names
    every weight that is missing or does not fit, and, if `strict`, what the source has besides.
    """
    return Weights(function, data, statics).load(source, names, strict)


@dataclass
class Weights:
    """The weights of a function: all parameters but the last `data`."""

    function: Function
    data: int
    statics: Statics
    solver: AxonSolver = field(default_factory=AxonSolver)
    tree: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        """Find the leaves. Raises WeightMismatch if there are fewer parameters than `data`."""
        contract, solver = self.function.contract, self.solver
        self.place = contract.place
        instance = solver.instantiate(self.function.scheme, Origin(self.place, contract.name))
        type_ = contract.give_statics(solver, instance.type, self.statics)
        self.patterns = self.function.evaluator.definitions[self.function.name].parameters
        count = len(self.patterns) - self.data
        if count < 1:
            raise WeightMismatch(
                f"`{contract.name}` takes {len(self.patterns)} arguments, of which the last "
                f"{self.data} are data: there are no weights",
                span=self.place,
                hint="put the weights first; `data` says how many arguments follow them",
            )
        found: list[Any] = []
        for pattern in self.patterns[:count]:
            type_ = solver.resolve(type_)
            if not isinstance(type_, Con):
                break
            found.append(self._tree(pattern, type_.arguments[0], ""))
            type_ = type_.arguments[1]
        self.tree = tuple(found)

    def _tree(self, pattern: s.Pattern | None, type_: Term, name: str) -> Any:
        """The leaves of a parameter, nested as it is."""
        while isinstance(pattern, s.AnnotatedPattern):
            pattern = pattern.pattern
        if isinstance(pattern, s.NamePattern):
            name = pattern.name
        type_ = self.solver.resolve(type_)
        if not (isinstance(type_, Con) and type_.name == "tuple"):
            return Leaf(name, type_, name)
        parts = pattern.items if isinstance(pattern, s.TuplePattern) else ()
        return tuple(
            self._tree(
                parts[i] if parts else None, part, f"{name}.{i}" if name else str(i)
            )
            for i, part in enumerate(type_.arguments)
        )  # fmt: skip

    def leaves(self) -> list[Leaf]:
        """All leaves, in order."""
        return list(leaves_of(self.tree))

    def flat(self, tree: tuple[Any, ...]) -> dict[str, Any]:
        """The arrays of a tree of weights, by name. Raises WeightMismatch for another nesting."""
        found: dict[str, Any] = {}

        def walk(mine: Any, theirs: Any) -> None:
            if isinstance(mine, Leaf) and not isinstance(theirs, tuple):
                found[mine.name] = theirs
                return
            items = cast("tuple[Any, ...]", mine) if isinstance(mine, tuple) else ()
            given = cast("tuple[Any, ...]", theirs) if isinstance(theirs, tuple) else ()
            if len(items) != len(given) or not items:
                raise WeightMismatch(
                    f"the weights are not nested as those of `{self.function.name}` are",
                    span=self.place, expected=_shown(mine), found=_nesting(theirs),
                )  # fmt: skip
            for one, other in zip(items, given, strict=True):
                walk(one, other)

        walk(self.tree, tree)
        return found

    def load(self, source: Any, names: Names, strict: bool) -> tuple[Any, ...]:
        """The arguments, from a source. Raises WeightMismatch."""
        known = read(source)
        tree = self._named(names)
        problems: list[tuple[str, str, str]] = []
        arrays = filled(tree, lambda leaf: self._array(leaf, known, problems))
        wanted = {_plain(leaf.source) for leaf in leaves_of(tree)}
        more = [name for name in known if name not in wanted] if strict else []
        if problems or more:
            raise self._error(problems, more)
        return arrays

    def _named(self, names: Names) -> Any:
        """The tree with the source's names."""
        if isinstance(names, tuple):
            return self._nested(self.tree, names, "")
        given = dict(cast("Mapping[str, str]", names or {}))
        own = {leaf.name for leaf in self.leaves()}
        unknown = [name for name in given if name not in own]
        if unknown:
            raise WeightMismatch(
                f"`{self.function.name}` has no weight `{unknown[0]}`", span=self.place,
                expected=_listed(own), found=f"`{unknown[0]}` in `names`",
                hint=_near(unknown[0], own),
            )  # fmt: skip
        return filled(self.tree, lambda f: Leaf(f.name, f.type, given.get(f.name, f.name)))

    def _nested(self, tree: Any, names: Any, at: str) -> Any:
        if isinstance(tree, Leaf) and isinstance(names, str):
            return Leaf(tree.name, tree.type, names)
        fits = isinstance(tree, tuple) and isinstance(names, tuple)
        items = cast("tuple[Any, ...]", tree) if fits else ()
        given = cast("tuple[Any, ...]", names) if fits else ()
        if not fits or len(items) != len(given):
            raise WeightMismatch(
                f"`names` is not nested as the weights of `{self.function.name}` are",
                span=self.place, expected=f"{at or 'names'}: {_shown(tree)}",
                found=_shown(names),
            )  # fmt: skip
        pairs = enumerate(zip(items, given, strict=True))
        return tuple(self._nested(a, b, f"{at or 'names'}[{i}]") for i, (a, b) in pairs)

    def _array(
        self, leaf: Leaf, known: Mapping[str, Any], problems: list[tuple[str, str, str]]
    ) -> Any:
        """A leaf's array; what is wrong with it is added to `problems`."""
        array = known.get(leaf.source, known.get(_plain(leaf.source)))
        if array is None:
            problems.append((leaf.name, self._shown(leaf), f"nothing named `{leaf.source}`"))
            return None
        if leaf.source not in known and leaf.source.endswith(TRANSPOSED):
            array = array.T
        found = type_of(array, leaf.type, self.solver)
        expected = self._shown(leaf)
        try:
            if found is not None:
                self.solver.unify(leaf.type, found, Origin(self.place, leaf.name))
        except Clash:
            shown = AxonPrinter().type(found) if found is not None else str(array)
            problems.append((leaf.name, expected, f"{shown}, as `{leaf.source}`"))
        return array

    def _shown(self, leaf: Leaf) -> str:
        return AxonPrinter().type(self.solver.resolve(leaf.type))

    def _error(self, problems: list[tuple[str, str, str]], more: list[str]) -> WeightMismatch:
        name = self.function.name
        if not problems:
            return WeightMismatch(
                f"the source has weights that `{name}` has not", span=self.place,
                expected=_listed({leaf.source for leaf in self.leaves()}), found=_listed(more),
                hint="pass `strict=False` to leave them out, or `names` to say which is which",
            )  # fmt: skip
        first, expected, found = problems[0]
        error = WeightMismatch(
            f"the weight `{first}` of `{name}` does not fit", span=self.place, expected=expected,
            found=found, hint=_near(first, more) or "`names` says which name is which weight",
        )  # fmt: skip
        for other, wanted, had in problems[1:SHOWN]:
            error.notes.append(Note(f"`{other}`: expected {wanted}, found {had}", None))
        if len(problems) > SHOWN:
            error.notes.append(Note(f"and {len(problems) - SHOWN} more", None))
        return error


SHOWN = 8
"""Weights that an error names."""


def _plain(name: str) -> str:
    return name.removesuffix(TRANSPOSED)


def _listed(names: Any) -> str:
    shown = sorted(names)
    more = f", and {len(shown) - SHOWN} more" if len(shown) > SHOWN else ""
    return ", ".join(f"`{name}`" for name in shown[:SHOWN]) + more


def _near(name: str, known: Any) -> str | None:
    found = get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"did you mean `{found[0]}`?" if found else None


def _shown(tree: Any) -> str:
    if isinstance(tree, tuple):
        return f"({', '.join(_shown(item) for item in cast('tuple[Any, ...]', tree))})"
    return tree.name if isinstance(tree, Leaf) else repr(tree)


def _nesting(tree: Any) -> str:
    if isinstance(tree, tuple):
        return f"({', '.join(_nesting(item) for item in cast('tuple[Any, ...]', tree))})"
    return "_"


def filled(tree: Any, value: Callable[[Leaf], Any]) -> Any:
    """A tree with a value in place of each leaf."""
    if isinstance(tree, tuple):
        return tuple(filled(item, value) for item in cast("tuple[Any, ...]", tree))
    return value(tree)


def read(source: Any) -> Mapping[str, Any]:
    """The arrays of a file, or of a mapping, by name. Raises WeightMismatch, MissingExtra."""
    if isinstance(source, Mapping):
        return cast("Mapping[str, Any]", source)
    path = Path(source)
    match path.suffix:
        case ".npz":
            with np.load(path) as arrays:
                return dict(arrays)
        case ".safetensors":
            require("weights", "Reading safetensors", "safetensors")
            from safetensors.numpy import load_file  # pyright: ignore

            return load_file(path)  # pyright: ignore
        case _:
            raise WeightMismatch(
                f"weights can't be read from `{path}`",
                span=Span(str(path), 1, 0),
                expected="a `.safetensors` or `.npz` file, or a mapping from names to arrays",
                found=f"a file that ends in `{path.suffix}`",
                hint="`torch.load` gives the mapping of a PyTorch file",
            )
