"""Python data to the program's words, and back."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tawa.cuppl.core.layout import FIRST_ADDRESS, MATRIX_PARTS, Layouts
from tawa.cuppl.elaboration.shared import Elaborated, InputSlot
from tawa.cuppl.typing.errors import InputMismatch
from tawa.functional.terms import Con, Term

__all__ = [
    "Decoder",
    "Image",
    "encode_inputs",
    "example_value",
    "flat_key",
    "hashable",
    "is_array",
    "mask_of_results",
    "masks_of",
    "object_table",
]

Words = npt.NDArray[np.int64]
MASK = (1 << 64) - 1


class Image:
    """Memory being filled: words, some of which are addresses within it.

    `at(base)` is the content for a given address of its first word.
    """

    def __init__(self) -> None:
        self.words: list[int] = []
        self.relocations: list[int] = []

    def reserve(self, count: int) -> int:
        """Room for some words; their position."""
        position = len(self.words)
        self.words.extend([0] * count)
        return position

    def put(self, position: int, word: tuple[int, bool]) -> None:
        """Set a word; the flag says that it is a position to be turned into an address."""
        value, relocate = word
        self.words[position] = value
        if relocate:
            self.relocations.append(position)

    def at(self, base: int) -> Words:
        """The content if the image lies at an address."""
        out = np.array(self.words, dtype=np.int64)
        if self.relocations:
            index = np.array(self.relocations)
            out[index] = out[index] * 8 + base
        return out


def _signed(value: int) -> int:
    value &= MASK
    return value - (1 << 64) if value >> 63 else value


def float_bits(value: float) -> int:
    """The bits of a float as a signed integer."""
    return ctypes.c_int64.from_buffer_copy(ctypes.c_double(value)).value


Word = tuple[int, bool]


class _Encoder:
    """Encodes the value of one input."""

    def __init__(self, name: str, program: Elaborated, image: Image) -> None:
        self.name = name
        self.layouts = program.layouts
        self.strings = program.strings
        self.image = image

    def error(self, type_: Term, value: object) -> InputMismatch:
        from tawa.functional.show import TypePrinter

        shown = repr(value)
        return InputMismatch(
            f"input `{self.name}` doesn't fit",
            expected=TypePrinter().type(type_),
            found=shown if len(shown) < 80 else shown[:77] + "...",
        )

    def encode(self, type_: Term, value: Any) -> list[Word]:
        """The words of a value."""
        assert isinstance(type_, Con)
        if isinstance(cast("object", value), np.ma.MaskedArray):
            self.refuse_masked(value)
        if type_.name in ("int", "float", "bool", "string"):
            return [(self.scalar(type_, value), False)]
        if type_.name == "tuple":
            return self.tuple(type_, value)
        if type_.name == "vector":
            return [self.vector(type_, value)]
        if type_.name == "matrix":
            return self.matrix(type_, value)
        if type_.name in self.layouts.datatypes:
            return [self.data(type_, value)]
        raise self.error(type_, value)

    def refuse_masked(self, value: Any) -> None:
        """Raise InputMismatch where an array's values are covered: no program sees that."""
        covered = int(value.size - value.count())
        if covered:
            raise InputMismatch(
                f"input `{self.name}` has masked values", expected="an array without a mask",
                found=f"{covered} of {value.size} values are masked",
                hint="give the others alone (`a.compressed()`), or `vector[Option[float]]`",
            )  # fmt: skip

    def scalar(self, type_: Con, value: Any) -> int:
        value = _plain(value)
        if type_.name == "bool" and isinstance(value, bool):
            return int(value)
        if type_.name == "string" and isinstance(value, str):
            if value not in self.strings:
                self.strings.append(value)
            return self.strings.index(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(type_, value)
        if type_.name == "float":
            return float_bits(self.real(type_, value))
        whole = isinstance(value, int) or value.is_integer()
        if type_.name == "int" and whole and -(1 << 63) <= value < 1 << 63:
            return _signed(int(value))
        raise self.error(type_, value)

    def real(self, type_: Con, value: int | float) -> float:
        """A number as a float."""
        try:
            return float(value)
        except OverflowError:
            raise self.error(type_, value) from None

    def tuple(self, type_: Con, value: Any) -> list[Word]:
        if not isinstance(value, list | tuple | np.ndarray):
            raise self.error(type_, value)
        items: list[Any] = list(value)  # pyright: ignore[reportUnknownArgumentType]
        if len(items) != len(type_.arguments):
            raise self.error(type_, items)
        pairs = zip(type_.arguments, items, strict=True)
        return [w for t, v in pairs for w in self.encode(t, v)]

    def vector(self, type_: Con, given: Any) -> Word:
        element = type_.arguments[0]
        value: Any = given.to_numpy() if hasattr(given, "to_numpy") else given
        unordered = isinstance(given, str | Mapping | set | frozenset)
        if unordered or not hasattr(value, "__len__") or getattr(value, "shape", None) == ():
            raise self.error(type_, value)
        kinds = self.layouts.words(element)
        position = self.image.reserve(2 + len(value) * len(kinds))
        self.image.put(position, (self.layouts.number(True, kinds) << 20 | 2, False))
        self.image.put(position + 1, (len(value), False))
        at = position + 2
        columns = self.columns(element, value)
        if columns is not None:
            for column in columns:
                self.image.words[at : position + 2 + len(value) * len(kinds) : len(kinds)] = column
                at += 1
            return position, True
        for item in value:
            for word in self.encode(element, item):
                self.image.put(at, word)
                at += 1
        return position, True

    def matrix(self, type_: Con, given: Any) -> list[Word]:
        """Sizes and elements of what NumPy takes as an array of two dimensions."""
        value: Any = given.to_numpy() if hasattr(given, "to_numpy") else given
        try:
            array = np.asarray(value)
        except (TypeError, ValueError):
            raise self.error(type_, value) from None
        if array.ndim != 2 or array.dtype.kind not in "iufO":
            raise self.error(type_, value)
        rows, columns, elements = MATRIX_PARTS
        assert isinstance(elements, Con)
        sizes = zip((rows, columns), array.shape, strict=True)
        words: list[Word] = [w for kind, size in sizes for w in self.encode(kind, size)]
        return [*words, self.vector(elements, array.reshape(-1))]

    def columns(self, element: Term, value: Any) -> list[list[int]] | None:
        """The elements' first words, their second words, ...: of numbers, and of tuples of them.

        None for what has to be looked at one by one.
        """
        assert isinstance(element, Con)
        given: list[Any] = [value]
        types: Sequence[Term] = [element]
        if element.name == "tuple" and isinstance(value, list | tuple):
            types = element.arguments
            rows: list[Any] = list(value)  # pyright: ignore[reportUnknownArgumentType]
            if not all(type(row) in (tuple, list) and len(row) == len(types) for row in rows):
                return None
            given = list(zip(*rows, strict=True))
        found = [_column_words(t, c) for t, c in zip(types, given, strict=False)]
        return None if None in found else [c for c in found if c is not None]

    def data(self, type_: Con, value: Any) -> Word:
        name, fields = _constructor(value)
        constructors = self.layouts.data(type_).constructors
        if name not in constructors:
            raise self.error(type_, value)
        tag, kinds = constructors[name]
        if len(kinds) == 1 and not isinstance(fields, list):
            fields = [fields]
        if not isinstance(fields, list) or len(fields) != len(kinds):  # pyright: ignore
            raise self.error(type_, value)
        if not kinds:
            return tag, False
        items: list[Any] = list(fields)  # pyright: ignore[reportUnknownArgumentType]
        words = [w for k, f in zip(kinds, items, strict=True) for w in self.encode(k, f)]
        types = tuple(t for k in kinds for t in self.layouts.words(k))
        position = self.image.reserve(1 + len(words))
        self.image.put(position, (self.layouts.number(False, types) << 20 | tag << 1, False))
        for offset, word in enumerate(words):
            self.image.put(position + 1 + offset, word)
        return position, True


def _column_words(type_: Term, values: Any) -> list[int] | None:
    """The words of many numbers at once; None where one of them is not just what it should be."""
    name = type_.name if isinstance(type_, Con) else ""
    if isinstance(values, np.ndarray):
        array: npt.NDArray[Any] = values  # pyright: ignore[reportUnknownVariableType]
        known = {"f": float, "i": int}.get(array.dtype.kind, object)
        kinds = {known if array.ndim == 1 else object}
    elif isinstance(values, list | tuple):
        kinds = set(map(type, values))  # pyright: ignore[reportUnknownArgumentType]
    else:
        return None
    try:
        if name == "float" and kinds <= {float, int}:
            return np.asarray(values, dtype=np.float64).view(np.int64).tolist()
        if name in ("int", "bool") and kinds <= {int if name == "int" else bool}:
            return np.asarray(values, dtype=np.int64).tolist()
    except OverflowError:
        return None
    return None


def _constructor(value: Any) -> tuple[str, Any]:
    """Name and fields: `"Leaf"`, `{"Node": [a, b]}` or `("Node", a, b)`."""
    if isinstance(value, str):
        return value, []
    if isinstance(value, Mapping) and len(value) == 1:  # pyright: ignore
        name, fields = next(iter(value.items()))  # pyright: ignore
        return str(name), list(fields) if isinstance(fields, list | tuple) else fields  # pyright: ignore
    if isinstance(value, tuple) and value and isinstance(value[0], str):
        rest: list[Any] = list(value[1:])  # pyright: ignore[reportUnknownArgumentType]
        return value[0], rest
    return "", []


def _plain(value: Any) -> Any:
    """A number of NumPy's, or its array without dimensions, as a number of Python's."""
    if isinstance(value, np.generic | np.ndarray) and np.ndim(cast(Any, value)) == 0:
        return cast(Any, value).item()
    return cast(Any, value)


def encode_inputs(program: Elaborated, data: Mapping[str, Any]) -> Image:
    """The image of a program's inputs and constants; the table of them comes first.

    Raises InputMismatch if one is missing, unknown or of another type.
    """
    image = Image()
    size = sum(len(program.layouts.words(slot.type)) for slot in program.inputs)
    table = image.reserve(max(size, 1))
    known = {slot.name for slot in program.inputs}
    for slot in program.inputs:
        words = _Encoder(slot.name, program, image).encode(slot.type, _given(slot, data))
        for offset, word in enumerate(words):
            image.put(table + slot.offset + offset, word)
    unknown = set(data) - known - set(program.unused)
    if unknown:
        raise InputMismatch(
            f"the program has no input `{sorted(unknown)[0]}`",
            expected=", ".join(f"`{n}`" for n in sorted(known) if " " not in n) or "no inputs",
        )
    return image


def _given(slot: InputSlot, data: Mapping[str, Any]) -> Any:
    if slot.value is not None:
        return slot.value
    if slot.name not in data:
        raise InputMismatch(
            f"input `{slot.name}` is not given",
            expected=f"a value for each `input`: {slot.name}",
            found=f"data with {', '.join(data) or 'no names'}",
            hint=f"pass data={{{slot.name!r}: ...}}, or --data FILE to `tawa cuppl run`",
        )
    return data[slot.name]


def object_table(layouts: Layouts) -> Words:
    """Three words a layout, for the collector: vector?, words, mask of references (`masks_of`)."""
    kinds = [layout.references for layout in layouts.table]
    masks = masks_of(kinds, 3 * len(kinds))
    rows = [
        (int(layout.vector), len(layout.references), mask)
        for layout, mask in zip(layouts.table, masks, strict=False)
    ]
    return np.array([w for row in rows for w in row] + masks[len(kinds) :], dtype=np.int64)


MASK_BITS = 63
"""Words of an object or a frame whose references a single word can tell."""


def masks_of(kinds: Sequence[Sequence[bool]], place: int) -> list[int]:
    """For each kind of object or frame, which of its words are references: a bit for each.

    Where they are more than `MASK_BITS`, the mask is minus the place in its table of as many words
    as they need. These follow all masks, and are to lie in the table from `place` on.
    """
    masks: list[int] = []
    more: list[int] = []
    for references in kinds:
        bits = sum(1 << k for k, r in enumerate(references) if r)
        if bits and len(references) > MASK_BITS:
            masks.append(-(place + len(more)))
            more += [_signed(bits >> at) for at in range(0, len(references), 64)]
        else:
            masks.append(bits)
    return masks + more


def mask_of_results(program: Elaborated, objects: Words) -> int:
    """The mask of what a run returns, whose words are those of a layout."""
    words = program.layouts.words(program.result)
    return int(objects[3 * program.layouts.number(False, words) + 2])


DEEP = 200
"""Nested values from which Python's own functions of tuples would recurse too deeply."""
SHOWN = 8


class Data(tuple[Any, ...]):
    """A value of a datatype: its constructor's name, then its fields; as deep as memory allows."""

    depth: int

    def __new__(cls, items: Iterable[Any]) -> Data:
        """A value that knows how many others are nested in it."""
        made = super().__new__(cls, items)
        made.depth = 1 + max((i.depth for i in made if isinstance(i, Data)), default=0)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled flat."""
        return _unflattened, (flat_key(self),)

    def __hash__(self) -> int:
        """That of the tuple, or of its parts if it is deep."""
        return super().__hash__() if self.depth < DEEP else hash(flat_key(self))

    def __eq__(self, other: object) -> bool:
        """Equal to tuples with the same parts."""
        if self.depth < DEEP or not isinstance(other, Data):
            return super().__eq__(other)
        return self is other or (self.depth == other.depth and flat_key(self) == flat_key(other))

    def __ne__(self, other: object) -> bool:
        """Not equal."""
        return not self == other

    def __repr__(self) -> str:
        """The tuple; of a deep one, its first levels."""
        if self.depth < DEEP:
            return super().__repr__()
        inner: Any = self
        parts: list[str] = []
        while isinstance(inner, Data) and len(parts) < SHOWN:
            parts.append("(" + ", ".join(map(repr, inner[:-1])))
            inner = inner[-1]
        return f"{', '.join(parts)}, ... ({self.depth} levels)" + ")" * len(parts)


def _unflattened(key: tuple[Any, ...]) -> Any:
    """The value with a flat key."""
    stack: list[Any] = []
    for item in reversed(key):
        if isinstance(item, tuple):
            kind, count = cast("tuple[type[Any], int]", item)
            parts = [stack.pop() for _ in range(count)]
            stack.append(kind(parts))
        else:
            stack.append(item)
    return stack[0]


class Decoder:
    """Values of a type from words; `read(address, count)` gives the bytes of words of memory."""

    def __init__(
        self, program: Elaborated, read: Callable[[int, int], bytes] | None = None
    ) -> None:
        self.layouts = program.layouts
        self.strings = program.strings
        self.read = read or _read_here

    def decode(self, type_: Term, words: list[int]) -> Any:
        """A Python value: numbers, tuples, lists, and tuples that start with a constructor."""
        assert isinstance(type_, Con)
        match type_.name:
            case "float":
                return ctypes.c_double.from_buffer_copy(ctypes.c_int64(words[0])).value
            case "bool":
                return bool(words[0])
            case "int":
                return words[0]
            case "string":
                return self.strings[words[0]]
            case "tuple":
                return self.tuple(type_.arguments, words)
            case "vector":
                return self.vector(type_.arguments[0], words[0])
            case "matrix":
                rows, columns, cells = self.tuple(MATRIX_PARTS, words)
                return [cells[k * columns : (k + 1) * columns] for k in range(rows)]
            case _:
                return self.data(type_, words[0])

    def tuple(self, items: tuple[Term, ...], words: list[int]) -> tuple[Any, ...]:
        """The tuple whose items lie one after the other in `words`."""
        out: list[Any] = []
        for item in items:
            size = len(self.layouts.words(item))
            out.append(self.decode(item, words[:size]))
            words = words[size:]
        return tuple(out)

    def words(self, address: int, count: int) -> list[int]:
        """`count` words from an address on."""
        return list(struct.unpack(f"={count}q", self.read(address, count)))

    def vector(self, element: Term, address: int) -> list[Any]:
        """The elements of the vector at an address, its length before them."""
        (length,) = self.words(address + 8, 1)
        size = len(self.layouts.words(element))
        block = np.frombuffer(self.read(address + 16, length * size), np.int64)
        numbers = column(element, block)
        if numbers is not None:
            return numbers.tolist()
        words = block.tolist()
        return [self.decode(element, words[k * size : (k + 1) * size]) for k in range(length)]

    def data(self, type_: Con, word: int) -> Any:
        """The value of a data type: a constructor's number, or the address of its fields.

        What ends in a value of a data type, as lists do, may be of any length.
        """
        if type_.name not in self.layouts.datatypes:
            return f"<{type_.name}>"
        before: list[tuple[Any, ...]] = []
        while True:
            name, kinds = self.constructor(type_, word)
            size = sum(len(self.layouts.words(k)) for k in kinds)
            words = self.words(word + 8, size) if kinds else []
            last = kinds[-1] if kinds else None
            if not (isinstance(last, Con) and last.name in self.layouts.datatypes):
                value: Any = Data((name, *self.tuple(kinds, words))) if kinds else name
                break
            before.append((name, *self.tuple(kinds[:-1], words[:-1])))
            type_, word = last, words[-1]
        for fields in reversed(before):
            value = Data((*fields, value))
        return value

    def constructor(self, type_: Con, word: int) -> tuple[str, tuple[Term, ...]]:
        """A value's constructor, and the types of its fields."""
        tag = word if word < FIRST_ADDRESS else (self.words(word, 1)[0] >> 1) & ((1 << 19) - 1)
        for name, (number, kinds) in self.layouts.data(type_).constructors.items():
            if number == tag:
                return name, kinds
        raise ValueError(f"no constructor of {type_.name} has tag {tag}")


def flat_key(value: Any) -> tuple[Any, ...]:
    """The same for equal decoded values, however deep they are nested.

    Where a value has parts, their kind and number stand before them.
    """
    out: list[Any] = []
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, tuple | list):
            items = cast("list[Any]", list(item))  # pyright: ignore[reportUnknownArgumentType]
            out.append((type(cast("Any", item)), len(items)))
            pending.extend(reversed(items))
        else:
            out.append(item)
    return tuple(out)


def hashable(value: Any) -> Any:
    """A decoded value as a key: vectors become tuples."""
    key = flat_key(value)
    if not any(item.__class__ is tuple and item[0] is list for item in key):
        return value
    return _unflattened(tuple(map(_fixed, key)))


def _fixed(item: Any) -> Any:
    """A part of a flat key, a vector's mark turned into a tuple's."""
    return (tuple, item[1]) if item.__class__ is tuple and item[0] is list else item


def _read_here(address: int, count: int) -> bytes:
    return ctypes.string_at(address, 8 * count)


def column(type_: Term, words: Words) -> npt.NDArray[Any] | None:
    """A row of scalar words as an array of its type, or None for what is not a scalar."""
    if not isinstance(type_, Con):
        return None
    match type_.name:
        case "float":
            return words.view(np.float64)
        case "int":
            return words
        case "bool":
            return words != 0
        case _:
            return None


def is_array(type_: Term) -> bool:
    """Whether a type is a matrix, or a vector of numbers or of such."""
    if not isinstance(type_, Con):
        return False
    if type_.name == "vector":
        inner = type_.arguments[0]
        return is_array(inner) or inner in (Con("float"), Con("int"), Con("bool"))
    return type_.name == "matrix"


def example_value(type_: Term) -> Any:
    """Some value of a type of numbers, before the first real one is known."""
    assert isinstance(type_, Con)
    if type_.name == "tuple":
        return tuple(example_value(t) for t in type_.arguments)
    known: dict[str, Any] = {"float": 0.0, "int": 0, "bool": False, "vector": [], "matrix": [[]]}
    return known.get(type_.name, "")
