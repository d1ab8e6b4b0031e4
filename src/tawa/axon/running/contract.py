"""Types as contracts: arrays are checked against a scheme when a function is called.

The check is done by the solver that infers types: the scheme's variables are solved for the sizes
of the actual arrays, so a contract may say all that a type can say. What a call needs is one
unification, some tenths of a millisecond.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from tawa.axon.sizes.dims import Dim
from tawa.axon.sizes.shapes import shape, tensor
from tawa.axon.sizes.show import AxonPrinter
from tawa.axon.sizes.solver import AxonSolver
from tawa.axon.typing.errors import ContractViolation, StaticArgumentError
from tawa.axon.typing.signature import read_signature, static_parameters
from tawa.base.source import Span
from tawa.base.user_frames import entries, entry
from tawa.functional.solver import Clash
from tawa.functional.terms import Con, Instance, Origin, Scheme, Term, product

Statics = Mapping[str, "int | tuple[int, ...]"]

ELEMENT_NAMES = {
    "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64", "bool": "bool",
    "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16",
    "uint32": "u32", "uint64": "u64",
}  # fmt: skip
"""Axon's element types by NumPy's and PyTorch's names."""


@dataclass(frozen=True)
class Call:
    """One call under a contract: what is known of its sizes, and the type of what is to come."""

    solver: AxonSolver
    instance: Instance
    rest: Term
    """The type that is left after the arguments: that of the result."""

    def result_type(self) -> Term:
        """The type of the result, with all that the arguments say."""
        return self.solver.resolve(self.rest)


@entries
@dataclass(frozen=True, repr=False)
class Contract:
    """A scheme that arguments are checked against. `place` is where it is written."""

    name: str
    scheme: Scheme
    parameters: tuple[str, ...]
    place: Span

    def __repr__(self) -> str:
        return f"<contract {self.type}>"

    @property
    def type(self) -> str:
        """The scheme as text."""
        return AxonPrinter().scheme(self.scheme)

    def enter(self, arguments: tuple[Any, ...], statics: Statics) -> Call:
        """Check the arguments of a call. Raises ContractViolation."""
        solver = AxonSolver()
        try:
            instance = solver.instantiate(self.scheme, Origin(self.place, f"`{self.name}`"))
            type_ = self.give_statics(solver, instance.type, statics)
            for number, value in enumerate(arguments):
                type_ = solver.resolve(type_)
                if not (isinstance(type_, Con) and type_.name == "->"):
                    raise ContractViolation(
                        f"`{self.name}` takes {number} argument{'s' * (number != 1)}, "
                        f"not {len(arguments)}",
                        span=self.place,
                    )
                known = number < len(self.parameters)
                label = self.parameters[number] if known else str(number + 1)
                parameter, rest = type_.arguments
                self._fit(solver, parameter, value, f"argument `{label}`")
                type_ = rest
        except Clash as clash:
            raise self._violation(clash, solver) from None
        for constraint in solver.waiting():
            solver.default(constraint)
        return Call(solver, instance, type_)

    def leave(self, call: Call, result: Any) -> None:
        """Check the result of a call. Raises ContractViolation."""
        self._fit(call.solver, call.rest, result, "the result")

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function with its positional arguments and its result checked at every call.

        Static parameters of the contract are taken from the keywords of the same name.
        """
        names = [parameter.name for parameter in static_parameters(self.scheme.type)]

        @entry
        @functools.wraps(function)
        def checked(*arguments: Any, **keywords: Any) -> Any:
            statics = {name: keywords[name] for name in names if name in keywords}
            call = self.enter(arguments, statics)
            result = function(*arguments, **keywords)
            self.leave(call, result)
            return result

        return checked

    def give_statics(self, solver: AxonSolver, type_: Term, statics: Statics) -> Term:
        """The type behind the static parameters, whose values are given. Raises Clash."""
        parameters = static_parameters(type_)
        if not (isinstance(type_, Con) and parameters):
            if statics:
                raise StaticArgumentError(f"`{self.name}` has no static parameters")
            return type_
        plain = [parameter.name for parameter in parameters]
        unknown = statics.keys() - set(plain)
        if unknown:
            raise StaticArgumentError(
                f"`{self.name}` has no static parameter `{min(unknown)}`", span=self.place,
                expected=", ".join(plain),
            )  # fmt: skip
        # What says the most first: `kv = 2` before `groups * kv = 4`, which has several solutions.
        for key, default, term in sorted(parameters, key=lambda p: not _is_variable(p.term)):
            given = statics.get(key, default)
            if given is not None:
                value = Dim.of(given) if isinstance(given, int) else shape(*given)
                solver.unify(term, value, Origin(self.place, f"static argument `{key}`"))
        return type_.arguments[-1]

    def _fit(self, solver: AxonSolver, parameter: Term, value: Any, what: str) -> None:
        found = type_of(value, parameter, solver)
        if found is None:
            return
        printer = AxonPrinter()
        expected = printer.type(solver.resolve(parameter))
        try:
            solver.unify(parameter, found, Origin(self.place, what))
        except Clash as clash:
            error = self._violation(clash, solver)
            error.message = f"`{self.name}`: {what} of type {printer.type(found)} does not fit"
            error.expected, error.found = expected, printer.type(found)
            raise error from None

    def _violation(self, clash: Clash, solver: AxonSolver) -> ContractViolation:
        printer = AxonPrinter()
        sides = [printer.type(solver.resolve(side)) for side in (clash.left, clash.right)]
        reason = f": {clash.reason}" if clash.reason else ""
        error = ContractViolation(
            f"`{self.name}`: {sides[0]} does not fit {sides[1]}{reason}", span=self.place
        )
        for origin in list(clash.origin.chain())[1:]:
            error.with_note(f"demanded by {origin.what}", origin.span)
        return error


def _is_variable(term: Term) -> bool:
    return isinstance(term, Dim) and term.sole_variable is not None


def type_of(value: Any, parameter: Term, solver: AxonSolver) -> Term | None:
    """The type of an actual argument; None for functions and datatypes, which aren't checked.

    Of an array, only `shape` and `dtype` are read: NumPy's, PyTorch's and JAX's will do.
    """
    if isinstance(value, tuple):
        items = cast("tuple[Any, ...]", value)
        parameter = solver.prune(parameter)
        parts = parameter.arguments if isinstance(parameter, Con) else ()
        missing = [solver.fresh() for _ in range(len(items) - len(parts))]
        padded = [*parts, *missing]
        return product(*(type_of(v, p, solver) or p for v, p in zip(items, padded, strict=False)))
    if isinstance(value, bool | int | float):
        value = np.asarray(value)
    if not (hasattr(value, "shape") and hasattr(value, "dtype")):
        return None
    name = ELEMENT_NAMES.get(str(value.dtype).removeprefix("torch."))
    if name is None:
        raise ContractViolation(f"arrays of {value.dtype} are not supported")
    return tensor(Con(name), shape(*(int(size) for size in value.shape)))


@entry
def contract(signature: str) -> Contract:
    """A contract from a signature: `f32[..b, i] -> f32[i, h] -> f32[..b, h]`.

    It may have static parameters in front (`{h} ...`) and conditions behind (`where n >= 2`), as
    the signatures of the prelude do. Raises TawaError if it can't be read.
    """
    return Contract("contract", read_signature(signature, "contract"), (), Span("<contract>", 1, 0))
