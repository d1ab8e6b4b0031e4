"""Random programs that also draw from densities, each written twice.

What draws from a density and then makes a choice of it has a twin of finite choices with the same
distribution: a coin whose bias is a beta draw is a coin, and so on. So a program of twins can be
enumerated, and says exactly what the other one has to give.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import erf, exp, lgamma, log, sqrt

from random_writer import Writer

HEAD = """data Shape = Dot | Line(int) | Box(int, bool)
def down n z = if n < 1 then z else if n > 4 then down 4 z else down (n - 1) (z + 1)
def tries n = if n < 1 then 0 else if flip 0.4 then 0 else 1 + tries (n - 1)
def coins n = if n < 1 then Nil else let c = flip 0.3 in Cons (c, coins (n - 1))
def seen n t = if n < 1 then t else let c = flip 0.6 in
  observe (bernoulli (if c then 0.8 else 0.3)) true; seen (n - 1) (if c then t + 1 else t)
def heads l = match l with | Nil -> 0 | Cons (c, rest) -> (if c then 1 else 0) + heads rest end
"""
MOST_OUTCOMES = 400.0
"""Of all choices of a program together, about: enumeration goes through them."""
Expression = Callable[[], str]


def normal_cdf(x: float) -> float:
    """The normal distribution's function."""
    return 0.5 * (1.0 + erf(x / sqrt(2.0)))


class MixedWriter(Writer):
    """Writes expressions with marks, `@3@`, for what differs between the two programs."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.twins: list[tuple[str, str]] = []
        self.outcomes = 1.0

    def both(self, mixed: str, finite: str) -> str:
        """A mark for two texts."""
        self.twins.append((mixed, finite))
        return f"@{len(self.twins) - 1}@"

    def resolved(self, text: str, side: int) -> str:
        """The text of one of the programs: 0 draws from densities, 1 does not."""
        while "@" in text:
            text = re.sub(r"@(\d+)@", lambda found: self.twins[int(found[1])][side], text)
        return text

    def number(self, low: float, high: float) -> float:
        """A constant."""
        return round(self.random.uniform(low, high), 2)

    def affordable(self, outcomes: float) -> bool:
        """Whether a choice may be made here, of so many outcomes; they are paid for."""
        if self.outcomes * outcomes > MOST_OUTCOMES or self.random.random() < 0.4:
            return False
        self.outcomes *= outcomes
        return True

    def one_of(self, *expressions: Expression) -> str:
        """One of some expressions, of which only that one is written."""
        return self.random.choice(expressions)()

    def bound(self, type_: str, scope: dict[str, str], depth: int) -> str:
        """Also functions that remember, prompts, closures and data."""
        return self.one_of(
            lambda: super(MixedWriter, self).bound(type_, scope, depth),
            lambda: super(MixedWriter, self).bound(type_, scope, depth),
            lambda: self.remembered(type_, scope, depth),
            lambda: self.chosen(type_, scope, depth),
            lambda: self.matched(type_, scope, depth),
            lambda: self.weighed(type_, scope, depth),
        )

    def remembered(self, type_: str, scope: dict[str, str], depth: int) -> str:
        """A function with `mem`, called where integers are; or one that calls itself."""
        name, given = self.fresh(), self.fresh()
        inner = {**scope, given: "int"}
        draw = self.integer_choice(inner, depth - 1) if self.affordable(6) else given
        rest = self.write(type_, {**scope, name: "memo"}, depth - 1)
        if self.random.random() < 0.6:
            return f"(let {name} = mem (fn {given} -> {draw}) in {rest})"
        calls = f"if {given} < 1 then {draw} else 1 + {name} ({given} - 1)"
        return f"(letrec {name} = mem (fn {given} -> {calls}) in {rest})"

    def chosen(self, type_: str, scope: dict[str, str], depth: int) -> str:
        """A function chosen when the program runs, or a continuation."""
        name, given = self.fresh(), self.fresh()
        test, value = self.write("bool", scope, depth - 2), self.write("int", scope, depth - 2)
        one, other = (self.write(type_, {**scope, given: "int"}, depth - 2) for _ in range(2))
        if self.random.random() < 0.6:
            functions = f"(if {test} then (fn {given} -> {one}) else (fn {given} -> {other}))"
            return f"(let {name} = {functions} in {name} {value})"
        again = {
            "int": f"k ({value}) + k 1", "bool": f"k ({value}) || k 2", "float": f"0.5 * k ({value})",
        }[type_]  # fmt: skip
        shift = f"shift {name} (fn k -> if {test} then {again} else {other.replace(given, '3')})"
        return f"(let {name} = prompt () in reset {name} (fn () -> let {given} = {shift} in {one}))"

    def matched(self, type_: str, scope: dict[str, str], depth: int) -> str:
        """A value of a data type, taken apart."""
        test = self.write("bool", scope, depth - 2)
        count, flag = self.fresh(), self.fresh()
        shapes = [
            "Dot", f"(Line ({self.write('int', scope, depth - 2)}))",
            f"(Box ({self.write('int', scope, depth - 2)}, {self.write('bool', scope, depth - 2)}))",
        ]  # fmt: skip
        self.random.shuffle(shapes)
        line = self.write(type_, {**scope, count: "int"}, depth - 1)
        box = self.write(type_, {**scope, count: "int", flag: "bool"}, depth - 1)
        return (
            f"(match (if {test} then {shapes[0]} else {shapes[1]}) with\n"
            f"  | Dot -> {self.write(type_, scope, depth - 2)}\n"
            f"  | Line {count} -> {line}\n  | Box ({count}, {flag}) -> {box}\n  end)"
        )

    def weighed(self, type_: str, scope: dict[str, str], depth: int) -> str:
        """Weights in loops and lists, of probability 0, and of densities."""
        rest = self.write(type_, scope, depth - 1)
        p, q = (self.write("bool", scope, depth - 2) for _ in range(2))
        return f"(let () = {self.one_of(lambda: self.loop(p, q, scope, depth), self.counted)} in {rest})"

    def loop(self, p: str, q: str, scope: dict[str, str], depth: int) -> str:
        """Observations one after the other."""
        x = self.write("float", scope, depth - 2)
        return self.pick(
            f"iter (fn c -> observe (bernoulli (sigmoid {x})) c) [{p}, {q}, {p}]",
            f"list_iter (fn c -> observe (bernoulli 0.4) c) (Cons ({p}, Cons ({q}, Nil)))",
            f"(if {p} then observe (binomial 2 (sigmoid {x})) 1 else condition (not {q} || flip 0.9))",
            f"factor (log_density (bernoulli (sigmoid {x})) {p})",
        )  # fmt: skip

    def counted(self) -> str:
        """A count whose rate was drawn, or a number near one that was."""
        shape, scale, count = self.number(0.5, 4), self.number(0.2, 2), self.random.randint(0, 3)
        mean, sd, noise, y = (self.number(a, b) for a, b in ((-1, 1), (0.5, 2), (0.5, 2), (-2, 2)))
        total = sqrt(sd * sd + noise * noise)
        rate = lgamma(shape + count) - lgamma(shape) - lgamma(count + 1.0)
        rate += count * log(scale) - (count + shape) * log(1.0 + scale)
        return self.one_of(
            lambda: self.both(
                f"(let l = sample (gamma {shape} {scale}) in observe (poisson l) {count})",
                f"factor ({rate!r})",
            ),
            lambda: self.both(
                f"(let m = sample (normal ({mean}) {sd}) in observe (normal m {noise}) ({y}))",
                f"observe (normal ({mean}) {total!r}) ({y})",
            ),
        )

    def integer(self, scope: dict[str, str], depth: int) -> str:
        """Also calls of what was remembered, recursion that draws, lists and vectors."""
        if self.affordable(3):
            return self.integer_choice(scope, depth)
        memo = self.known(scope, "memo")
        if memo is not None and self.random.random() < 0.6:
            return f"({memo} (abs {self.write('int', scope, depth - 1)} % 2))"
        if self.random.random() < 0.5:
            return super().integer(scope, depth)
        a, p = self.write("int", scope, depth - 1), self.write("bool", scope, depth - 1)
        q, t = self.write("bool", scope, depth - 2), self.fresh()
        plain = [
            f"(length (filter (fn {t} -> {t} < {a}) ([0, 1] ++ [{a}, 2])))",
            f"(match (if {p} then Some ({a}) else None) with | None -> 1 | Some {t} -> {t} - 1 end)",
            f"(heads (list_map (fn {t} -> {t} && {p}) (Cons ({q}, Cons ({p}, Nil)))))",
            f"(let ({t}, _) = (if {p} then ({a}, {q}) else (1, {p})) in {t})",
            f"(sum (slice 1 2 (tabulate 4 (fn {t} -> if {p} then {t} * {t} else {t}))))",
        ]
        if self.affordable(4):
            plain = [
                f"(tries (abs {a} % 3))", "(heads (coins 2))", f"(seen 2 ({a}))",
                "(count (fn c -> c) (repeat 2 (fn () -> flip 0.3)))",
                f"(range_fold (fn {t} i -> if flip 0.2 then {t} else {t} + i) ({a}) 2)",
            ]  # fmt: skip
        return self.random.choice(plain)

    def integer_choice(self, scope: dict[str, str], depth: int) -> str:
        """A draw from 0, 1, 2."""
        a, b, c = (self.number(0.5, 4) for _ in range(3))
        odds = 1.0 + b
        none = odds**-a
        one = a * b / odds * none
        return self.one_of(
            lambda: self.pick("(sample (uniform_int 0 2))", "(sample (categorical [0.2, 0.0, 0.5]))"),
            lambda: f"(sample (binomial 2 (sigmoid {self.write('float', scope, depth - 1)})))",
            lambda: self.both(
                f"(let u = sample (beta {a} {b}) in sample (binomial 2 u))",
                f"(sample (beta_binomial 2 {a} {b}))",
            ),
            lambda: self.both(
                "(floor (3.0 * sample (uniform 0 1)))", "(sample (uniform_int 0 2))"
            ),
            lambda: self.both(
                f"(min 2 (sample (poisson (sample (gamma {a} {b})))))",
                f"(sample (categorical [{none!r}, {one!r}, {1.0 - none - one!r}]))",
            ),
            lambda: self.both(
                f"(let w = sample (dirichlet [{a}, {b}, {c}]) in sample (categorical w))",
                f"(sample (categorical [{a}, {b}, {c}]))",
            ),
        )  # fmt: skip

    def truth(self, scope: dict[str, str], depth: int) -> str:
        """Also coins of all kinds."""
        if not self.affordable(2):
            return super().truth(scope, depth)
        a, b, m = self.number(0.5, 4), self.number(0.5, 4), self.number(-1, 1)
        low = normal_cdf((m - 0.3) / b)
        return self.one_of(
            lambda: f"(flip (sigmoid {self.write('float', scope, depth - 1)}))",
            lambda: self.pick("(flip 0.0)", "(flip 1.0)", "(flip 0.999)"),
            lambda: self.uniform_coin(scope, depth),
            lambda: self.both(f"(let u = sample (beta {a} {b}) in flip u)", f"(flip {a / (a + b)!r})"),
            lambda: self.both(f"(sample (exponential {a}) > {b})", f"(flip {exp(-a * b)!r})"),
            lambda: self.both(f"(sample (normal 0.3 {b}) < {m})", f"(flip {low!r})"),
            lambda: self.learned_coin(a, b, scope, depth),
            lambda: self.learned_number(b, m),
        )  # fmt: skip

    def uniform_coin(self, scope: dict[str, str], depth: int) -> str:
        """A uniform number that is compared."""
        x = self.write("float", scope, depth - 1)
        return self.both(f"(sample (uniform 0 1) < sigmoid {x})", f"(flip (sigmoid {x}))")

    def learned_coin(self, a: float, b: float, scope: dict[str, str], depth: int) -> str:
        """A coin that was seen to fall before: Polya's urn."""
        p = self.write("bool", scope, depth - 1)
        return self.both(
            f"(let u = sample (beta {a} {b}) in let () = observe (bernoulli u) {p} in flip u)",
            f"(let p = {p} in let () = observe (bernoulli {a / (a + b)!r}) p in\n"
            f"  flip (({a} + (if p then 1.0 else 0.0)) / {a + b + 1.0!r}))",
        )

    def learned_number(self, sd: float, limit: float) -> str:
        """Whether a number that was measured is below a limit."""
        y, noise = self.number(-2, 2), self.number(0.5, 2)
        total = sd * sd + noise * noise
        mean, spread = y * sd * sd / total, sd * noise / sqrt(total)
        return self.both(
            f"(let x = sample (normal 0 {sd}) in\n"
            f"  let () = observe (normal x {noise}) ({y}) in x < {limit})",
            f"(let () = observe (normal 0 {sqrt(total)!r}) ({y}) in"
            f" flip {normal_cdf((limit - mean) / spread)!r})",
        )


def pair(seed: int) -> tuple[str, str]:
    """A program, and one of finite choices with the same distribution."""
    writer = MixedWriter(seed)
    parts = [writer.write(kind, {}, 4) for kind in ("int", "bool", "int")]
    names = ("r", "s", "t")
    lets = "".join(f"  let {n} = {p} in\n" for n, p in zip(names, parts, strict=True))
    text = f"{HEAD}def main () =\n{lets}  (r, s, t)"
    return writer.resolved(text, 0), writer.resolved(text, 1)
