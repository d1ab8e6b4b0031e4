"""Errors of CuPPL programs that are found before they run."""

from __future__ import annotations

from tawa.functional.errors import FunctionalError

__all__ = [
    "BadSetting", "EffectInConstant", "InputMismatch", "NoColumn", "NoMain", "UnsupportedMethod",
    "UnsupportedValue",
]  # fmt: skip


class NoMain(FunctionalError):
    """A program has no `main`."""

    explanation = "Inference runs `main`: `def main () = ...`."
    example = "from tawa import cuppl\ncuppl.model('def f x = x').importance(particles=1)"


class EffectInConstant(FunctionalError):
    """A top-level constant would draw, condition or memoise."""

    explanation = (
        "A `def` without parameters is a constant, whose value must not depend on chance. "
        "Make it a function, or bind it with `let` inside `main`."
    )
    example = (
        "from tawa import cuppl\n"
        "cuppl.model('def x = flip 0.5 def main () = x').importance(particles=1)"
    )


class UnsupportedValue(FunctionalError):
    """A value is used in a way that its type has no meaning for."""

    explanation = "For example, functions and distributions can't be compared with `==`."
    example = (
        "from tawa import cuppl\n"
        "cuppl.model('def main () = (fn x -> x + 1) == (fn x -> x)').importance(particles=1)"
    )


class InputMismatch(FunctionalError):
    """The data given for an input doesn't have the input's type."""

    explanation = (
        "`input name : type` is given by name when the program is run. Vectors come from lists and "
        "NumPy arrays, tuples from lists and tuples, and values of a datatype from "
        '`{"Constructor": [fields]}` or, without fields, from `"Constructor"`.'
    )
    example = (
        "from tawa import cuppl\n"
        "cuppl.model('input x : float def main () = x').importance(particles=1, data={'x': 'a'})"
    )


class BadSetting(FunctionalError, ValueError):
    """A setting of an inference method has a value that means nothing."""

    explanation = (
        "Numbers of particles, draws, chains and runs are positive whole numbers. A seed fits in "
        "64 bits, and the device is `cpu` or `gpu`."
    )
    example = "from tawa import cuppl\ncuppl.model('def main () = flip 0.5').smc(particles=0)"


class NoColumn(FunctionalError, KeyError):
    """The result of a program has no numeric part of this name."""

    explanation = (
        "Means, quantiles and columns are of the parts of the result that are numbers or truth "
        "values. Of other results (lists, vectors, values of a datatype) take "
        "`posterior.values`, or give a function of a value: `posterior.mean(lambda v: len(v))`."
    )
    example = (
        "from tawa import cuppl\n"
        "cuppl.model('def main () = [1, 2]').importance(particles=100).mean()"
    )


class UnsupportedMethod(FunctionalError):
    """An inference method can't run this program."""

    explanation = (
        "HMC and NUTS need choices that are continuous and always the same in number, in a "
        "program without `shift`. Particle MCMC needs observations."
    )
    example = "from tawa import cuppl\ncuppl.model('def main () = flip 0.5').nuts(draws=10)"
