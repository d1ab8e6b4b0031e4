"""How values lie in registers and in memory.

Every scalar is one 8-byte word. A tuple is its items' words side by side, as a matrix is its sizes
and a vector. A heap object is a
header word and its fields' words; a vector is a header, a length, and its elements' words. The
header is `layout << 20 | tag << 1`: `layout` says which words are references (for the collector),
`tag` which constructor it is. A constructor without fields is no object: the reference is the tag
itself, which is below every address.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tawa.cuppl.core.ir import Type
from tawa.functional import syntax as s
from tawa.functional.terms import Con, Term

__all__ = [
    "FIRST_ADDRESS", "MATRIX_PARTS", "VECTOR_TAG", "DataLayout", "Layout", "Layouts", "header",
    "parts_of",
]  # fmt: skip

FIRST_ADDRESS = 4096
"""References below this are constructors without fields."""

VECTOR_TAG = 1
MATRIX_PARTS = (Con("int"), Con("int"), Con("vector", (Con("float"),)))
"""A matrix: rows, columns, and its elements row by row."""
_SCALARS = {
    "int": Type.I64,
    "float": Type.F64,
    "bool": Type.BOOL,
    "string": Type.I64,
    "prompt": Type.I64,
}


@dataclass(frozen=True, slots=True)
class Layout:
    """Words of a heap object behind its header, or of each element of a vector."""

    vector: bool
    references: tuple[bool, ...]


@dataclass(slots=True)
class DataLayout:
    """The constructors of one instance of a datatype: name -> (tag, types of the fields)."""

    constructors: dict[str, tuple[int, tuple[Term, ...]]]

    @property
    def enumeration(self) -> bool:
        """Whether no constructor has fields."""
        return all(not fields for _, fields in self.constructors.values())


_FIXED = (
    Layout(True, (False,)),
    Layout(False, (True, True, False, True)),
    Layout(True, ()),  # its words are frames: see `frames.py`
)


def parts_of(type_: Con) -> tuple[Term, ...] | None:
    """The types whose words lie side by side in a value of this type; None if it is no such."""
    if type_.name == "matrix":
        return MATRIX_PARTS
    return type_.arguments if type_.name == "tuple" else None


def header(layout: int, tag: int) -> int:
    """The header word."""
    return layout << 20 | tag << 1


@dataclass(slots=True)
class Layouts:
    """The layouts of a program, numbered; numbers 0 to 2 are known to natives.

    0 is a vector of plain words, 1 a node of the memo tree, 2 a captured continuation.
    """

    datatypes: dict[str, s.Datatype] = field(default_factory=dict[str, s.Datatype])
    table: list[Layout] = field(default_factory=lambda: list(_FIXED))
    instances: dict[Term, DataLayout] = field(default_factory=dict[Term, DataLayout])

    def number(self, vector: bool, words: tuple[Type, ...]) -> int:
        """Number of the layout with these words."""
        layout = Layout(vector, tuple(w is Type.REF for w in words))
        if layout not in self.table:
            self.table.append(layout)
        return self.table.index(layout)

    def words(self, type_: Term) -> tuple[Type, ...]:
        """The registers that a value of a type takes."""
        if not isinstance(type_, Con):
            return (Type.I64,)
        if type_.name in _SCALARS:
            return (_SCALARS[type_.name],)
        parts = parts_of(type_)
        if parts is not None:
            return tuple(w for item in parts for w in self.words(item))
        if type_.name in self.datatypes and self.data(type_).enumeration:
            return (Type.I64,)
        return (Type.REF,)

    def data(self, type_: Con) -> DataLayout:
        """The constructors of a datatype's instance."""
        found = self.instances.get(type_)
        if found is None:
            datatype = self.datatypes[type_.name]
            found = self.instances[type_] = DataLayout({})
            parameters = dict(zip(datatype.parameters, type_.arguments, strict=True))
            for tag, constructor in enumerate(datatype.constructors):
                fields = tuple(self.read(f, parameters) for f in constructor.fields)
                found.constructors[constructor.name] = (tag, fields)
        return found

    def read(self, syntax: s.TypeSyntax, parameters: dict[str, Term]) -> Term:
        """The type that a field's syntax means."""
        match syntax:
            case s.TypeVariable(name):
                return parameters[name]
            case s.ArrowType(parameter, result):
                return Con("->", (self.read(parameter, parameters), self.read(result, parameters)))
            case s.TupleType(items):
                return Con("tuple", tuple(self.read(i, parameters) for i in items))
            case s.NamedType(name, arguments):
                inner = [a for a in arguments or () if isinstance(a, s.TypeSyntax)]
                return Con(name, tuple(self.read(a, parameters) for a in inner))
            case _:
                raise TypeError(type(syntax).__name__)
