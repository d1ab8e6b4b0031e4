"""From the Python of a native to the core: see `native.py`."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass

from tawa.cuppl.core.ir import (
    CONTEXT_FIELDS,
    Alloc,
    AtomicAdd,
    Block,
    Branch,
    Call,
    Const,
    Copy,
    Function,
    Get,
    Instruction,
    Jump,
    Load,
    Op,
    Pause,
    Reg,
    Return,
    Set,
    Store,
    Table,
    Terminator,
    Type,
    Wake,
)
from tawa.cuppl.core.scalars import SCALARS
from tawa.cuppl.translation.registry import NATIVES
from tawa.cuppl.translation.subset import (
    ANNOTATIONS,
    BINARY,
    COMPARE,
    ELEMENTS,
    PRIMITIVES,
    VECTOR_OFFSET,
    WORDS_HEADER,
    annotation,
    result_types,
    signature,
    source_of,
    targets,
    type_of,
)

__all__ = ["Translator"]


@dataclass(slots=True)
class _Value:
    reg: Reg
    kind: str = ""
    """Annotation name, for what can be subscripted."""


class Translator:
    """Translates one function."""

    def __init__(self, name: str, function: Callable[..., object]) -> None:
        self.name = name
        tree = ast.parse(source_of(function)).body[0]
        assert isinstance(tree, ast.FunctionDef)
        self.tree = tree
        self.globals: dict[str, object] = function.__globals__  # type: ignore[attr-defined]
        self.variables: dict[str, _Value] = {}
        self.blocks: dict[str, Block] = {}
        self.count = 0
        self.loops: list[tuple[str, str]] = []
        self.apart: list[str] = []
        self.here = self._start("entry")

    def run(self) -> Function:
        """The core function."""
        params: list[Reg] = []
        for arg in self.tree.args.args:
            kind = annotation(arg.annotation)
            if kind != "Context":
                reg = Reg(arg.arg, ANNOTATIONS[kind])
                self.variables[arg.arg] = _Value(reg, kind)
                params.append(reg)
        self._body(self.tree.body)
        returned = result_types(self.tree.returns)
        if self.here.terminator is None:
            self._end(Return(()))
        blocks = {n: b for n, b in self.blocks.items() if b.terminator is not None}
        size = sum(len(b.instructions) for b in blocks.values())
        return Function(
            self.name, tuple(params), returned, blocks, inline=size < 40, apart=tuple(self.apart)
        )

    def _start(self, hint: str) -> Block:
        self.count += 1
        block = Block(f"{hint}{self.count}")
        self.blocks[block.name] = block
        self.here = block
        return block

    def _reserve(self, hint: str) -> str:
        self.count += 1
        return f"{hint}{self.count}"

    def _open(self, name: str) -> None:
        self.here = self.blocks[name] = Block(name)

    def _end(self, terminator: Terminator) -> None:
        if self.here.terminator is None:
            self.here.terminator = terminator

    def _put(self, item: Instruction) -> None:
        if self.here.terminator is None:
            self.here.instructions.append(item)

    def _temp(self, type_: Type) -> Reg:
        self.count += 1
        return Reg(f"t{self.count}", type_)

    def _error(self, node: ast.AST, message: str) -> ValueError:
        line = getattr(node, "lineno", 0)
        return ValueError(f"native {self.name}, line {line}: {message}: {ast.unparse(node)}")

    def _body(self, body: list[ast.stmt]) -> None:
        for statement in body:
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                pass
            case ast.Expr(value=ast.Call() as call):
                self._call(call)
            case ast.Assign(targets=[target], value=value):
                self._assign(target, value)
            case ast.AugAssign(target=target, op=op, value=value):
                load = ast.parse(ast.unparse(target), mode="eval").body
                self._assign(target, ast.BinOp(load, op, value))
            case ast.If():
                self._if(node)
            case ast.While():
                self._while(node)
            case ast.For():
                self._for(node)
            case ast.Return(value=value):
                self._return(value)
            case ast.Break() | ast.Continue():
                self._end(Jump(self.loops[-1][isinstance(node, ast.Break)]))
            case _:
                raise self._error(node, "not part of the native subset")

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        match target:
            case ast.Name(id=name):
                got = self._value(value)
                self._bind(name, got, target)
            case ast.Tuple(elts=elts):
                assert isinstance(value, ast.Call)
                regs = self._call(value)
                for element, reg in zip(elts, regs, strict=True):
                    assert isinstance(element, ast.Name)
                    self._bind(element.id, _Value(reg), target)
            case ast.Attribute(value=ast.Name(), attr=attr):
                self._put(Set(attr, self._coerce(self._reg(value), CONTEXT_FIELDS[attr])))
            case ast.Subscript(value=base, slice=index):
                vector = self._value(base)
                type_, offset = ELEMENTS[vector.kind]
                position = self._reg(index)
                source = self._coerce(self._reg(value), type_)
                self._put(Store(vector.reg, source, position, offset))
            case _:
                raise self._error(target, "can't be assigned")

    def _bind(self, name: str, got: _Value, node: ast.AST) -> None:
        known = self.variables.get(name)
        if known is None:
            known = self.variables[name] = _Value(Reg(name, got.reg.type), got.kind)
        source = self._coerce(got.reg, known.reg.type)
        if source.type is not known.reg.type:
            raise self._error(node, f"{name} changes its type")
        self._put(Copy(known.reg, source))

    def _if(self, node: ast.If) -> None:
        then, other, after = self._reserve("then"), self._reserve("else"), self._reserve("endif")
        self._condition(node.test, then, other)
        self._open(then)
        self._body(node.body)
        self._end(Jump(after))
        self._open(other)
        self._body(node.orelse)
        self._end(Jump(after))
        self._open(after)
        if not any(targets(b.terminator, after) for b in self.blocks.values()):
            # Both arms return: what follows can't be reached, but a block needs an end.
            self.here.terminator = Jump(after)

    def _while(self, node: ast.While) -> None:
        head, body, after = self._reserve("while"), self._reserve("do"), self._reserve("done")
        self._end(Jump(head))
        self._open(head)
        self._condition(node.test, body, after)
        self.loops.append((head, after))
        self._open(body)
        self._body(node.body)
        self._end(Jump(head))
        self.loops.pop()
        self._open(after)

    def _for(self, node: ast.For) -> None:
        assert isinstance(node.target, ast.Name) and isinstance(node.iter, ast.Call)
        assert isinstance(node.iter.func, ast.Name)
        bounds = node.iter.args
        low: ast.expr = bounds[0] if len(bounds) > 1 else ast.Constant(0)
        high = self._temp(Type.I64)
        self._put(Copy(high, self._reg(bounds[min(1, len(bounds) - 1)])))
        step = ast.literal_eval(bounds[2]) if len(bounds) > 2 else 1
        name = node.target.id
        self._bind(name, self._value(low), node)
        counter = self.variables[name].reg
        head, body = self._reserve("for"), self._reserve("do")
        nxt, after = self._reserve("next"), self._reserve("done")
        if node.iter.func.id == "apart":
            self.apart.append(head)
        self._end(Jump(head))
        self._open(head)
        test = self._op("lti" if step > 0 else "gti", counter, high)
        self._end(Branch(test, body, after))
        self.loops.append((nxt, after))
        self._open(body)
        self._body(node.body)
        self._end(Jump(nxt))
        self.loops.pop()
        self._open(nxt)
        self._put(Copy(counter, self._op("addi", counter, self._const(step, Type.I64))))
        self._end(Jump(head))
        self._open(after)

    def _return(self, value: ast.expr | None) -> None:
        types = result_types(self.tree.returns)
        if value is None:
            self._end(Return(()))
        elif isinstance(value, ast.Tuple):
            regs = [self._reg(e) for e in value.elts]
            self._end(Return(tuple(map(self._coerce, regs, types))))
        elif len(types) > 1:
            assert isinstance(value, ast.Call)
            self._end(Return(tuple(self._call(value))))
        else:
            found = self._reg(value)
            self._end(Return(tuple(self._coerce(found, t) for t in types)))

    # Expressions.

    def _const(self, value: float | int | bool, type_: Type) -> Reg:
        reg = self._temp(type_)
        self._put(Const(reg, value))
        return reg

    def _op(self, name: str, *args: Reg) -> Reg:
        reg = self._temp(SCALARS[name].result)
        self._put(Op(reg, name, args))
        return reg

    def _coerce(self, reg: Reg, type_: Type) -> Reg:
        if reg.type is Type.I64 and type_ is Type.F64:
            return self._op("float", reg)
        if {reg.type, type_} == {Type.I64, Type.REF}:
            out = self._temp(type_)
            self._put(Copy(out, reg))
            return out
        return reg

    def _reg(self, node: ast.expr) -> Reg:
        return self._value(node).reg

    def _value(self, node: ast.expr) -> _Value:
        match node:
            case ast.Constant(value=bool() | int() | float() as value):
                return _Value(self._const(value, type_of(value)))
            case ast.Name(id=name):
                return self._name(name, node)
            case ast.BinOp(left=left, op=op, right=right):
                return _Value(self._binary(BINARY[type(op)], left, right, node))
            case ast.UnaryOp(op=op, operand=operand):
                reg = self._reg(operand)
                negation = "negf" if reg.type is Type.F64 else "negi"
                return _Value(self._op("not" if isinstance(op, ast.Not) else negation, reg))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return _Value(self._binary(COMPARE[type(op)], left, right, node))
            case ast.BoolOp() | ast.IfExp():
                return self._choice(node)
            case ast.Attribute(value=ast.Name(), attr=attr):
                reg = self._temp(CONTEXT_FIELDS[attr])
                self._put(Get(reg, attr))
                return _Value(reg)
            case ast.Subscript(value=base, slice=index):
                return self._subscript(base, index, node)
            case ast.Call():
                return self._call_value(node)
            case _:
                raise self._error(node, "not part of the native subset")

    def _name(self, name: str, node: ast.expr) -> _Value:
        if name in self.variables:
            return self.variables[name]
        value = self.globals.get(name)
        if isinstance(value, bool | int | float):
            return _Value(self._const(value, type_of(value)))
        raise self._error(node, "unknown name")

    def _binary(
        self, names: tuple[str, str], left: ast.expr, right: ast.expr, node: ast.expr
    ) -> Reg:
        a, b = self._reg(left), self._reg(right)
        if a.type is Type.BOOL:
            return self._op("eqb", a, b)
        if Type.F64 in (a.type, b.type) or not names[1]:
            a, b = self._coerce(a, Type.F64), self._coerce(b, Type.F64)
            name = names[0]
        else:
            name = names[1]
        if not name:
            raise self._error(node, "operands of the wrong type")
        return self._op(name, a, b)

    def _rest(self, base: ast.expr, part: ast.Slice, node: ast.expr) -> _Value:
        """`array[first:]`: the address of the element there."""
        array = self._value(base)
        if part.lower is None or part.upper or part.step or ELEMENTS[array.kind][1]:
            raise self._error(node, "not the rest of an array")
        distance = self._op("muli", self._reg(part.lower), self._const(8, Type.I64))
        return _Value(self._op("addi", array.reg, distance), array.kind)

    def _subscript(self, base: ast.expr, index: ast.expr, node: ast.expr) -> _Value:
        if isinstance(index, ast.Slice):
            return self._rest(base, index, node)
        if isinstance(base, ast.Name) and base.id not in self.variables:
            return self._table(base.id, index, node)
        vector = self._value(base)
        type_, offset = ELEMENTS[vector.kind]
        reg = self._temp(type_)
        self._put(Load(reg, vector.reg, self._reg(index), offset))
        return _Value(reg)

    def _table(self, name: str, index: ast.expr, node: ast.expr) -> _Value:
        """An entry of a constant tuple of floats."""
        values = self.globals.get(name)
        if not isinstance(values, tuple):
            raise self._error(node, "only vectors, arrays and constant tuples can be indexed")
        out = self._temp(Type.F64)
        content: list[float] = [float(v) for v in values]  # pyright: ignore
        self._put(Table(out, tuple(content), self._reg(index)))
        return _Value(out)

    def _choice(self, node: ast.BoolOp | ast.IfExp) -> _Value:
        then, other, after = self._reserve("yes"), self._reserve("no"), self._reserve("join")
        if isinstance(node, ast.IfExp):
            self._condition(node.test, then, other)
            arms: tuple[ast.expr, ast.expr] = (node.body, node.orelse)
        else:
            self._condition(node, then, other)
            arms = (ast.Constant(True), ast.Constant(False))
        self._open(then)
        first = self._value(arms[0])
        out = self._temp(first.reg.type)
        first_block = self.here
        self._open(other)
        second = self._value(arms[1])
        if Type.F64 in (first.reg.type, second.reg.type):
            out = self._temp(Type.F64)
        self._put(Copy(out, self._coerce(second.reg, out.type)))
        self._end(Jump(after))
        self.here = first_block
        self._put(Copy(out, self._coerce(first.reg, out.type)))
        self._end(Jump(after))
        self._open(after)
        return _Value(out, first.kind)

    def _condition(self, node: ast.expr, then: str, other: str) -> None:
        """Branch on a condition, short-circuiting `and`, `or` and `not`."""
        match node:
            case ast.BoolOp(op=op, values=values):
                for value in values[:-1]:
                    more = self._reserve("more")
                    if isinstance(op, ast.And):
                        self._condition(value, more, other)
                    else:
                        self._condition(value, then, more)
                    self._open(more)
                self._condition(values[-1], then, other)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                self._condition(operand, other, then)
            case _:
                self._end(Branch(self._reg(node), then, other))

    def _call_value(self, node: ast.Call) -> _Value:
        assert isinstance(node.func, ast.Name)
        name = node.func.id
        kind = {
            "new_floats": "FloatVector", "new_ints": "IntVector", "new_object": "Ints"
        }.get(name, "")  # fmt: skip
        if name in NATIVES:
            result = str(NATIVES[name].__annotations__.get("return", ""))
            kind = result if result in ELEMENTS else ""
        return _Value(self._call(node)[0], kind)

    def _call(self, node: ast.Call) -> list[Reg]:
        assert isinstance(node.func, ast.Name)
        name = node.func.id
        if name == "horner":
            return [self._horner(node)]
        if name in ("atomic_add", "sleep_while", "wake"):
            return self._shared_word(name, node)
        args = [self._value(a) for a in node.args if not self._is_context(a)]
        regs = [a.reg for a in args]
        if name in ("new_floats", "new_ints"):
            return [self._new_vector(regs[0])]
        if name == "new_object":
            return [self._new_object(node, regs)]
        if name == "len":
            length = self._temp(Type.I64)
            self._put(Load(length, regs[0], None, 1))
            return [length]
        simple = self._primitive(name, regs)
        return [simple] if simple is not None else self._native_call(name, regs, node)

    def _native_call(self, name: str, regs: list[Reg], node: ast.Call) -> list[Reg]:
        target = self.globals.get(name)
        known = NATIVES.get(name)
        if known is None or (target is not known and name != self.name):
            raise self._error(node, "not a native function")
        wanted, returned = signature(known)
        args = tuple(self._coerce(r, t) for r, t in zip(regs, wanted, strict=True))
        dsts = tuple(self._temp(t) for t in returned)
        self._put(Call(dsts, name, args))
        return list(dsts)

    def _primitive(self, name: str, regs: list[Reg]) -> Reg | None:
        if name in ("float", "int", "bool"):
            wanted = ANNOTATIONS[name]
            if regs[0].type is wanted:
                return regs[0]
            if regs[0].type is Type.BOOL:
                number = self._op("int_of_bool", regs[0])
                return number if name == "int" else self._op("float", number)
            return self._op(name, regs[0])
        if name == "abs":
            return self._op("absf", regs[0])
        if name in ("min", "max"):
            return self._extremum(name, regs)
        if name in PRIMITIVES:
            types = SCALARS[name].operands
            return self._op(name, *(self._coerce(r, t) for r, t in zip(regs, types, strict=True)))
        return None

    def _extremum(self, name: str, regs: list[Reg]) -> Reg:
        a, b = regs
        if Type.F64 in (a.type, b.type):
            a, b = self._coerce(a, Type.F64), self._coerce(b, Type.F64)
            test = self._op("ltf" if name == "min" else "gtf", b, a)
            return self._op("selectf", test, b, a)
        test = self._op("lti" if name == "min" else "gti", b, a)
        return self._op("selecti", test, b, a)

    def _horner(self, node: ast.Call) -> Reg:
        """`horner(x, COEFFICIENTS)`: the polynomial, highest power first, unrolled."""
        x = self._coerce(self._reg(node.args[0]), Type.F64)
        table = node.args[1]
        assert isinstance(table, ast.Name)
        values = self.globals[table.id]
        assert isinstance(values, tuple)
        coefficients: list[float] = [float(v) for v in values]  # pyright: ignore
        total = self._const(coefficients[0], Type.F64)
        for value in coefficients[1:]:
            total = self._op("fma", total, x, self._const(value, Type.F64))
        return total

    def _new_vector(self, length: Reg) -> Reg:
        words = self._op("addi", length, self._const(VECTOR_OFFSET, Type.I64))
        out = self._temp(Type.REF)
        self._put(Alloc(out, words))
        self._put(Store(out, self._const(WORDS_HEADER, Type.I64)))
        self._put(Store(out, length, None, 1))
        return out

    def _shared_word(self, name: str, node: ast.Call) -> list[Reg]:
        """`atomic_add(array, CONSTANT, value)`: the old value; `sleep_while`; `wake`."""
        base, offset, *value = node.args
        index = offset.value if isinstance(offset, ast.Constant) else None
        if isinstance(offset, ast.Name):
            index = self.globals[offset.id]
        assert isinstance(index, int)
        word = self._reg(base)
        if name == "atomic_add":
            out = self._temp(Type.I64)
            self._put(AtomicAdd(out, word, self._reg(value[0]), index))
            return [out]
        self._put(Pause(word, self._reg(value[0]), index) if value else Wake(word, index))
        return []

    def _new_object(self, node: ast.Call, regs: list[Reg]) -> Reg:
        """`new_object(ctx, header, words)`: only the header is set."""
        out = self._temp(Type.I64)
        size = node.args[2]
        words = size.value if isinstance(size, ast.Constant) else regs[1]
        assert isinstance(words, int | Reg)
        self._put(Alloc(out, words))
        self._put(Store(out, regs[0]))
        return out

    def _is_context(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id == "ctx"
