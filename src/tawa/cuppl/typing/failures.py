"""The ways in which compiled code can stop, and the errors that tell the user.

Compiled code stops with a code and a site; the driver turns the pair, and the particle's key,
into one of these errors. The first three codes are not the user's fault: the driver makes room
and runs the particle again.
"""

from __future__ import annotations

from tawa.functional.errors import FunctionalError

__all__ = ["FAILURES"]

HEAP_FULL = 1
DEPTH = 2
STACK_FULL = 3
INVALID_PARAMETER = 4
NAN_WEIGHT = 5
INDEX = 6
DIVISION = 7
FUEL = 8
USER = 9
NEGATIVE_SIZE = 10
NO_RESET = 11
ALL_ZERO = 12
INFINITE_SUPPORT = 13
OVERFLOW = 17
IMPROPER = 18


class InvalidParameter(FunctionalError):
    """A distribution was given parameters that it does not have."""

    explanation = (
        "Each distribution checks its parameters when it is drawn from or observed: a scale must "
        "be positive, a probability between 0 and 1, and so on. The error names the particle and "
        "the step, which replay it."
    )
    example = (
        "from tawa import cuppl\n"
        "cuppl.model('def main () = sample (normal 0.0 (-1.0))').importance(particles=10)"
    )


class NaNWeight(FunctionalError):
    """The weight of a run became NaN (or positive infinity)."""

    explanation = (
        "The log weight given to `factor`, or the log density of an observation, is not a number. "
        "A common cause is `log` of a negative number, or infinity minus infinity."
    )
    example = (
        "from tawa import cuppl\n"
        "cuppl.model('def main () = factor (log (-1.0))').importance(particles=10)"
    )


class IndexOutOfRange(FunctionalError):
    """A vector was indexed outside its length."""

    explanation = "Indices count from 0 to `length v - 1`."
    example = (
        "from tawa import cuppl\n"
        "cuppl.model('def main () = [1, 2].[sample (poisson 50.0) + 2]').importance(particles=10)"
    )


class DivisionByZero(FunctionalError):
    """An integer was divided by zero."""

    explanation = "`//` and `%` need a divisor other than 0; floats divide to infinity instead."
    example = (
        "from tawa import cuppl\n"
        "cuppl.model('def main () = 1 // (sample (poisson 0.0))').importance(particles=10)"
    )


class IntegerOverflow(FunctionalError):
    """An integer became too large, or a float too large for an integer."""

    explanation = (
        "An `int` has 64 bits: from -9223372036854775808 to 9223372036854775807. `floor` and "
        "`truncate` need a float in this range. Compute with floats where numbers may be larger."
    )
    example = (
        "from tawa import cuppl\n"
        "cuppl.model('def main () = 3 * sample (poisson 4e18)').importance(particles=10)"
    )


class NegativeSize(FunctionalError):
    """A vector of negative length was asked for."""

    explanation = "`tabulate`, `repeat`, `slice` and their like need a length of at least 0."
    example = (
        "from tawa import cuppl\n"
        "cuppl.model('def main () = length (range (0 - 1))').importance(particles=10)"
    )


class UnboundedRecursion(FunctionalError):
    """A run recursed beyond all limits, in depth or in steps."""

    explanation = (
        "Recursion may be as deep as memory allows: stacks grow and the particle is run again. "
        "This run reached the limit (`max_depth`, `max_steps` or `max_memory`), which mostly "
        "means that it never ends. Look for a recursion without a base case, or whose base case "
        "has probability 0."
    )
    example = (
        "from tawa import cuppl\n"
        "cuppl.model('def f x = 1 + f (x + 1) def main () = f 0').importance(particles=1)"
    )


class ProgramFailed(FunctionalError):
    """The program called `fail`."""

    explanation = "`fail` stops the inference; the message is the program's own."
    example = (
        "from tawa import cuppl\n"
        "cuppl.model('def main () = if flip 0.5 then 1 else fail \"no\"').importance(particles=99)"
    )


class ShiftOutsideReset(FunctionalError):
    """`shift` found no `reset` of its prompt around it."""

    explanation = "`shift p f` needs to run inside `reset p (fn () -> ...)` of the same prompt."
    example = (
        "from tawa import cuppl\n"
        "cuppl.model('def main () = let p = prompt () in 1 + shift p (fn k -> k 2)')"
        ".importance(particles=1)"
    )


class AllWeightsZero(FunctionalError):
    """Every particle has weight zero: no run is compatible with the observations."""

    explanation = (
        "There are three usual causes. The conditions can't all hold. Or they hold so rarely that "
        "more particles are needed. Or they come so late that resampling can't help. The error "
        "says at which step the last particle died."
    )
    example = (
        "from tawa import cuppl\n"
        "cuppl.model('def main () = condition (sample (normal 0.0 1.0) > 99.0)')"
        ".importance(particles=10)"
    )


class InfiniteSupport(FunctionalError):
    """Enumeration met a distribution with infinitely many values."""

    explanation = (
        "Exact enumeration needs finite choices: bernoulli, binomial, uniform_int, categorical "
        "and their like. Use SMC or MCMC for the others."
    )
    example = (
        "from tawa import cuppl\ncuppl.model('def main () = sample (normal 0.0 1.0)').enumerate()"
    )


class ImproperPrior(FunctionalError):
    """A method that draws from the prior met `flat`, which has no draws."""

    explanation = (
        "`flat low high` is a density of 1 between its ends, at least one of which is infinite. "
        "It says only where a parameter lies. That is enough for `nuts`, `hmc`, `pathfinder` and "
        "`advi`. All other methods draw from the prior, and need one that is a distribution."
    )
    example = (
        "from tawa import cuppl\n"
        "cuppl.model('def main () = sample (flat 0 infinity)').importance(particles=10)"
    )


FAILURES: dict[int, tuple[type[FunctionalError], str]] = {
    DEPTH: (UnboundedRecursion, "recursion too deep"),
    STACK_FULL: (UnboundedRecursion, "recursion too deep"),
    HEAP_FULL: (UnboundedRecursion, "a run needs more memory than it may have"),
    FUEL: (UnboundedRecursion, "a run takes more steps than it may"),
    INVALID_PARAMETER: (InvalidParameter, "invalid parameters of a distribution"),
    NAN_WEIGHT: (NaNWeight, "the log weight is NaN or +infinity"),
    INDEX: (IndexOutOfRange, "index out of range"),
    DIVISION: (DivisionByZero, "integer division by zero"),
    OVERFLOW: (IntegerOverflow, "integer overflow"),
    USER: (ProgramFailed, "the program failed"),
    NEGATIVE_SIZE: (NegativeSize, "negative length"),
    NO_RESET: (ShiftOutsideReset, "`shift` outside its `reset`"),
    ALL_ZERO: (AllWeightsZero, "all weights are zero"),
    INFINITE_SUPPORT: (InfiniteSupport, "a choice with infinitely many values"),
    IMPROPER: (ImproperPrior, "an improper prior has no draws: take nuts, hmc or pathfinder"),
}
"""Failure code -> the error's class and message."""

REJECTED = 14
"""Not an error: the run's weight is zero, so what it would do next does not matter."""

TRACE_FULL = 15
"""Not an error: more choices than the record of a run has room for; it is enlarged."""

DISCRETE_CHOICE = 16
"""A choice without a density on the reals, met by a method that needs one."""
