"""Writes random programs of finite choices."""

from __future__ import annotations

import random


class Writer:
    """Writes an expression of a type, given the names of each type that are in scope."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0
        self.choices = 0

    def pick(self, *texts: str) -> str:
        """One of some texts."""
        return self.random.choice(texts)

    def fresh(self) -> str:
        """A new name."""
        self.count += 1
        return f"v{self.count}"

    def known(self, scope: dict[str, str], type_: str) -> str | None:
        """A name of a type."""
        names = [name for name, kind in scope.items() if kind == type_]
        return self.random.choice(names) if names else None

    def write(self, type_: str, scope: dict[str, str], depth: int) -> str:
        """An expression."""
        name = self.known(scope, type_)
        if depth <= 0 or (name is not None and self.random.random() < 0.2):
            return name or self.constant(type_)
        kind = self.random.random()
        if kind < 0.2:
            return self.bound(type_, scope, depth)
        if kind < 0.35:
            test, yes, no = (self.write(t, scope, depth - 1) for t in ("bool", type_, type_))
            return f"(if {test} then {yes} else {no})"
        return {"int": self.integer, "bool": self.truth, "float": self.real}[type_](scope, depth)

    def constant(self, type_: str) -> str:
        """A literal."""
        if type_ == "int":
            return str(self.random.randint(0, 4))
        return self.pick("true", "false") if type_ == "bool" else f"{self.random.random():.3f}"

    def bound(self, type_: str, scope: dict[str, str], depth: int) -> str:
        """`let`, a function, or an effect before an expression."""
        name, other = self.fresh(), self.pick("int", "bool", "float")
        kind = self.random.random()
        if kind < 0.25:
            weight = self.pick(
                f"condition ({self.write('bool', scope, depth - 1)} || flip 0.5)",
                f"factor (0.0 - {self.write('float', scope, depth - 1)})",
                f"observe (bernoulli 0.3) {self.write('bool', scope, depth - 1)}",
            )
            return f"(let () = {weight} in {self.write(type_, scope, depth - 1)})"
        value = self.write(other, scope, depth - 1)
        if kind < 0.75:
            return f"(let {name} = {value} in {self.write(type_, {**scope, name: other}, depth)})"
        given = self.fresh()
        body = self.write(type_, {**scope, given: other}, depth - 1)
        return f"(let {name} {given} = {body} in {name} {value})"

    def integer(self, scope: dict[str, str], depth: int) -> str:
        """Arithmetic, draws, vectors, recursion."""
        a, b = (self.write("int", scope, depth - 1) for _ in range(2))
        x = self.write("float", scope, depth - 1)
        index, total = self.fresh(), self.fresh()
        inner = self.write("int", {**scope, index: "int", total: "int"}, depth - 2)
        plain = [
            f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"({a} % ({b} * {b} + 1))",
            f"({a} // ({b} * {b} + 1))", f"(min {a} {b})", f"(abs {a})", f"(floor (3.0 * {x}))",
            f"([{a}, {b}, 1].[abs {a} % 3])", f"(sum (map (fn {index} -> {index} + 1) [{a}, {b}]))",
            f"(range_fold (fn {total} {index} -> ({inner}) % 7) {a} (abs {b} % 3))",
            f"(list_fold (fn {total} {index} -> {total} - {index}) {a} (Cons ({b}, Nil)))",
            f"(down {a} ({b}))",
        ]  # fmt: skip
        if self.choices < 5 and self.random.random() < 0.5:
            self.choices += 1
            return self.pick(
                "(sample (uniform_int 0 2))", f"(sample (categorical [0.2, abs {x}, 0.5, 0.0]))",
                f"(sample (binomial 2 (sigmoid {x})))",
            )  # fmt: skip
        return self.random.choice(plain)

    def truth(self, scope: dict[str, str], depth: int) -> str:
        """Comparisons, logic, coins."""
        a, b = (self.write("int", scope, depth - 1) for _ in range(2))
        p, q = (self.write("bool", scope, depth - 1) for _ in range(2))
        x, y = (self.write("float", scope, depth - 1) for _ in range(2))
        if self.choices < 6 and self.random.random() < 0.5:
            self.choices += 1
            return f"(flip (sigmoid {x}))"
        return self.pick(
            f"({a} < {b})", f"({a} == {b})", f"({p} && {q})", f"({p} || {q})", f"(not {p})",
            f"({x} < {y})", f"({p} == {q})", f"(({a}, {p}) == ({b}, {q}))",
        )  # fmt: skip

    def real(self, scope: dict[str, str], depth: int) -> str:
        """Bounded floats."""
        a = self.write("int", scope, depth - 1)
        x, y = (self.write("float", scope, depth - 1) for _ in range(2))
        return self.pick(
            f"(sigmoid ({x} - {y}))", f"(0.5 * ({x} + {y}))", f"(tanh (float {a}))", f"(sin {x})",
            f"(max {x} {y} * 0.9)", f"(exp (0.0 - abs {x}))",
        )  # fmt: skip


def program(seed: int) -> str:
    """A program."""
    writer = Writer(seed)
    parts = [writer.write(kind, {}, 4) for kind in ("int", "bool")]
    down = "def down n z = if n < 1 then z else if n > 4 then down 4 z else down (n - 1) (z + 1)"
    return f"{down}\ndef main () =\n  let r = {parts[0]} in\n  let s = {parts[1]} in\n  (r, s)"
