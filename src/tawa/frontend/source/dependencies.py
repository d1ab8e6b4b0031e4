"""What a kernel's meaning depends on: its own text, and that of everything it names.

The names that a function uses are followed through globals, closures and attributes of modules,
into the functions that they stand for. That gives a text, which is part of the cache key, and a
function that tells, in a fraction of a microsecond, whether all these names still stand for the
same.
"""

from __future__ import annotations

import ast
import builtins
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import partial
from hashlib import sha256
from typing import Any, cast

from tawa.base.decorated import computed_while_compiling
from tawa.frontend.source.function import (
    JITFunction,
    Namespace,
    NoSource,
    is_jit_function,
    jit_function,
)
from tawa.language import dtypes
from tawa.language.builtin import LanguageFunction
from tawa.language.host import ConstexprFunction

__all__ = ["Dependencies", "dependencies_of", "described"]

LANGUAGES = "tawa.language", "triton"
"""Modules whose names mean the same as long as this package (and its compiler) does."""

INSTALLED = "site-packages", "dist-packages"

KEPT = "_dependencies"
"""The attribute of a function in the tile language that has what it depended on last."""

PLAIN = (bool, int, float, complex, str, bytes, type(None))


@dataclass(frozen=True)
class Dependencies:
    """What a function depends on at one time."""

    digest: str
    """Differs where what the function compiles to may differ."""
    unchanged: Callable[[], bool]
    """Whether every name still stands for what it stood for."""


def dependencies_of(fn: JITFunction) -> Dependencies:
    """What a function and all that it names are now. Raises `NoSource`."""
    known: Dependencies | None = fn.__dict__.get(KEPT)
    if known is None or not known.unchanged():
        visitor = _Visitor()
        visitor.function(fn)
        digest = sha256("\0".join(visitor.parts).encode(errors="surrogatepass")).hexdigest()
        known = fn.__dict__[KEPT] = Dependencies(digest, visitor.watch.compiled())
    return known


def described(value: Any) -> str:
    """A text of a compile-time value that differs where kernels compiled for it may differ."""
    visitor = _Visitor()
    text = visitor.describe(value)
    return "\0".join((text, *visitor.parts))


class _Watch:
    """Conditions that hold as long as nothing has changed, as the text of one function."""

    def __init__(self) -> None:
        self.objects: dict[int, tuple[str, Any]] = {}
        self.conditions: dict[str, None] = {}
        self.looked_into: set[str] = set()

    def named(self, value: Any) -> str:
        """The name of an object in the function's text."""
        return self.objects.setdefault(id(value), (f"v{len(self.objects)}", value))[0]

    def add(self, place: str, value: Any) -> None:
        """A place that has to hold the very same object."""
        self.conditions[f"{place} is {self.named(value)}"] = None

    def text_of(self, value: Any) -> None:
        """An object that may be changed in place: its text."""
        name = self.named(value)
        if name not in self.looked_into:
            self.looked_into.add(name)
            describe, known = self.named(described), self.named(described(value))
            self.need(f"{describe}({name}) == {known}")

    def need(self, condition: str) -> None:
        """Any other condition."""
        self.conditions[condition] = None

    def compiled(self) -> Callable[[], bool]:
        """The function: true if all conditions hold."""
        parameters = ", ".join(f"{name}={name}" for name, _ in self.objects.values())
        text = (
            f"def unchanged({parameters}):\n"
            f"    try:\n"
            f"        return {' and '.join(self.conditions) or 'True'}\n"
            f"    except (KeyError, AttributeError, ValueError):\n"  # a name is gone
            f"        return False"
        )
        scope: dict[str, Any] = dict(self.objects.values())
        exec(compile(text, "<tawa: what a kernel depends on>", "exec"), scope)
        return scope["unchanged"]


class _Visitor:
    """Collects the text of what is reached, each object once."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.watch = _Watch()
        self.seen: dict[int, Any] = {}
        """By identity; the values keep what is looked at alive."""
        self.bound: set[tuple[int, int]] = set()
        """Functions and what they were bound to, by identity."""

    def function(self, fn: JITFunction) -> None:
        """A function in the tile language."""
        self.watch.add(f"{self.watch.named(fn)}.fn", fn.fn)  # its text may be replaced
        if not self._is_new(fn.fn):
            return
        source = fn.source
        self.parts.append(f"{source.file}:{source.first_line}\n{source.text}")
        self.parts.append(str([(p.name, p.is_constexpr, p.declared) for p in fn.parameters]))
        self._names(fn.fn, source.tree.body)

    def plain_function(self, fn: types.FunctionType) -> None:
        """A Python function that is run while a kernel is compiled."""
        if not self._is_new(fn):
            return
        if _is_installed(fn):
            self.parts.append(f"{fn.__module__}.{fn.__qualname__}")
            return
        body: list[ast.stmt] | None = None
        try:
            source = JITFunction(fn).source
        except NoSource:
            code = fn.__code__
            self.parts.append(f"{code.co_code!r} {_constants(code)} {code.co_names}")
        else:
            self.parts.append(source.text)
            body = source.tree.body
        self._names(fn, body)

    def method(self, value: types.MethodType) -> None:
        """A method that is run while a kernel is compiled: what it reads of what it is bound to."""
        fn, owner = value.__func__, value.__self__
        self.describe(fn)
        bound = id(fn), id(owner)
        if bound in self.bound or not isinstance(fn, types.FunctionType) or _is_installed(fn):
            return
        self.bound.add(bound)
        own = fn.__code__.co_varnames[0] if fn.__code__.co_argcount else ""
        try:
            body = JITFunction(fn).source.tree.body
        except NoSource:
            self._value("self", owner)
            return
        for name, attributes in _chains(body):
            if name == own:
                self._attributes(own, owner, attributes)

    def describe(self, value: Any) -> str:
        """A text of a value; what it refers to is visited."""
        if isinstance(value, Enum):
            return f"{type(value).__qualname__}.{value.name} {value.value!r}"
        if type(value) in PLAIN or isinstance(value, dtypes.dtype):
            return f"{type(value).__name__} {value!r}"
        if type(value).__name__ == "constexpr" and hasattr(value, "value"):
            self.watch.add(f"{self.watch.named(value)}.value", value.value)
            return f"constexpr {self.describe(value.value)}"
        if isinstance(value, tuple | list | set | frozenset):
            kind = type(cast("object", value))
            items = [self.describe(item) for item in cast("Iterable[Any]", value)]
            items = sorted(items) if issubclass(kind, set | frozenset) else items
            return f"{kind.__qualname__}({', '.join(items)})"
        if isinstance(value, dict):
            pairs = cast("dict[Any, Any]", value).items()
            return f"dict({', '.join(f'{self.describe(k)}: {self.describe(v)}' for k, v in pairs)})"
        return self._named_thing(value)

    def _named_thing(self, value: Any) -> str:
        if isinstance(value, types.ModuleType):
            return f"module {value.__name__}"
        if isinstance(value, ConstexprFunction):
            value = value.function
        value = computed_while_compiling(value) or value
        if isinstance(value, LanguageFunction) or _module_of(value).startswith(LANGUAGES):
            return f"{_module_of(value)} {getattr(value, '__name__', value)!r}"
        if is_jit_function(value):
            self.function(jit_function(value))
            return "function"
        if isinstance(value, types.MethodType):
            self.method(value)
            return "method"
        if isinstance(value, partial):
            given = cast("partial[Any]", value)
            return f"partial {self.describe((given.func, given.args, given.keywords))}"
        if isinstance(value, types.FunctionType):
            self.plain_function(value)
            return "function"
        if isinstance(value, type):
            return f"class {value.__module__}.{value.__qualname__}"
        return self._object(value)

    def _object(self, value: Any) -> str:
        """Any other object: its fields, or its bytes."""
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        if not self._is_new(value):
            return kind
        if hasattr(value, "tobytes") and hasattr(value, "dtype"):
            return f"{kind} {value.dtype} {value.shape} {sha256(value.tobytes()).hexdigest()}"
        slots = [n for c in type(value).__mro__ for n in getattr(c, "__slots__", ())]
        fields = {n: getattr(value, n) for n in slots if hasattr(value, n)}
        fields |= getattr(value, "__dict__", {})
        return f"{kind} {self.describe(fields) if fields else repr(value)}"

    def _is_new(self, value: Any) -> bool:
        if id(value) in self.seen:
            return False
        self.seen[id(value)] = value
        return True

    # --- names ----------------------------------------------------------------------------------

    def _names(self, fn: Any, body: list[ast.stmt] | None) -> None:
        """Default values, and what the names in a function stand for."""
        for field in ("__defaults__", "__kwdefaults__"):
            value = getattr(fn, field)
            if value is not None:
                self.watch.add(f"{self.watch.named(fn)}.{field}", value)
                self._value(field, value)
        space = Namespace(fn)
        code: types.CodeType = fn.__code__
        if body is None:
            for name in sorted(_all_names(code)):
                self._name(space, name)
            return
        for name, attributes in _chains(body):
            if name in code.co_varnames:  # its own variables, whatever a global is called
                continue
            value = self._name(space, name, followed=bool(attributes))
            self._attributes(name, value, attributes)

    def _name(self, space: Namespace, name: str, *, followed: bool = False) -> Any:
        """What a name stands for, watched; described unless only its attributes are used."""
        if name in space.cells:
            place = f"{self.watch.named(space.cells[name])}.cell_contents"
        else:
            place = f"{self.watch.named(space.globals)}[{name!r}]"
        if name not in space:
            if name not in space.cells:
                self.watch.need(f"{name!r} not in {self.watch.named(space.globals)}")
            return getattr(builtins, name, None)
        raw = space.cells[name].cell_contents if name in space.cells else space.globals[name]
        self.watch.add(place, raw)
        value = space[name]
        if not followed or not _has_followed_attributes(value):
            self._value(name, value)
        return value

    def _attributes(self, path: str, value: Any, names: tuple[str, ...]) -> None:
        """What attributes of a module, a class or an object stand for."""
        for name in names:
            if not _has_followed_attributes(value):
                return
            path = f"{path}.{name}"
            owner = self.watch.named(value)
            try:
                value = getattr(value, name)
            except AttributeError:
                self.watch.need(f"not hasattr({owner}, {name!r})")
                return
            if not isinstance(value, types.MethodType):
                self.watch.add(f"{owner}.{name}", value)
        self._value(path, value)

    def _value(self, path: str, value: Any) -> None:
        text = self.describe(value)
        self.parts.append(f"{path} = {text}")
        if _may_change(value):
            self.watch.text_of(value)


def _has_followed_attributes(value: Any) -> bool:
    """Whether attributes of a value are followed one by one: it may have many that don't count."""
    if type(value) in PLAIN or isinstance(value, dtypes.dtype | tuple | list | dict):
        return False
    if is_jit_function(value) or isinstance(value, LanguageFunction | ConstexprFunction):
        return False
    if type(value).__name__ == "constexpr" or isinstance(value, types.FunctionType):
        return False
    return not _module_of(value).startswith(LANGUAGES)


def _module_of(value: Any) -> str:
    """The module that a value is, or that it or its class is defined in."""
    if isinstance(value, types.ModuleType):
        return value.__name__
    found: Any = getattr(value, "__module__", None) or type(value).__module__
    return found if isinstance(found, str) else ""


def _may_change(value: Any) -> bool:
    """Whether a value can become another one without a name being bound anew."""
    if isinstance(value, tuple | frozenset):
        return any(map(_may_change, cast("Iterable[Any]", value)))
    if type(value) in PLAIN or isinstance(value, Enum | type | dtypes.dtype | dtypes.constexpr):
        return False
    if isinstance(value, types.ModuleType | types.BuiltinFunctionType):
        return False
    if isinstance(value, types.FunctionType | types.MethodType):
        return False  # what they read is watched by itself
    if isinstance(value, LanguageFunction | ConstexprFunction) or is_jit_function(value):
        return False
    return not _module_of(value).startswith(LANGUAGES)


def _is_installed(fn: types.FunctionType) -> bool:
    """Whether a function belongs to Python or to an installed package."""
    if (fn.__module__ or "").partition(".")[0] in sys.stdlib_module_names:
        return True
    return any(f"/{folder}/" in fn.__code__.co_filename for folder in INSTALLED)


def _chains(body: list[ast.stmt]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The names that a function's body reads, each with the attributes that it takes of them."""
    seen: set[tuple[str, tuple[str, ...]]] = set()
    inner: set[int] = set()
    for node in ast.walk(ast.Module(body, [])):  # an attribute comes before what it is taken of
        names: list[str] = []
        base: ast.AST = node
        while isinstance(base, ast.Attribute):
            inner.add(id(base.value))
            names.append(base.attr)
            base = base.value
        if id(node) in inner or not isinstance(base, ast.Name):
            continue
        chain = base.id, tuple(reversed(names))
        if isinstance(base.ctx, ast.Load) and chain not in seen:
            seen.add(chain)
            yield chain


def _all_names(code: types.CodeType) -> set[str]:
    """The names that code and the functions in it read, of globals, closures and attributes."""
    nested = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    return {*code.co_names, *code.co_freevars}.union(*map(_all_names, nested))


def _constants(code: types.CodeType) -> str:
    """The constants of code, with the functions in it."""
    return str([
        f"{c.co_code!r} {_constants(c)}" if isinstance(c, types.CodeType) else repr(c)
        for c in code.co_consts
    ])  # fmt: skip
