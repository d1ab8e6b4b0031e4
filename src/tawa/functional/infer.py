"""Hindley-Milner inference over the shared syntax.

`Inference` walks a module, group by group of definitions that depend on each other, and records
the type of every expression and pattern, the scheme of every binding, and how each use of a name
was instantiated. A language derives from it: it says what literals are (`literal`), reads its own
type syntax (`named_type`), and infers its own expressions (`extension`).
"""

from __future__ import annotations

from collections.abc import Sequence

from tawa.base.source import Span
from tawa.functional import syntax as s
from tawa.functional.dependencies import definition_groups
from tawa.functional.errors import DuplicateName, UnknownType
from tawa.functional.expressions import ExpressionInference
from tawa.functional.terms import Con, Scheme, Term, arrow, product


class Inference(ExpressionInference):
    """The inference of one module."""

    # Modules.

    def module(self, module: s.Module) -> dict[str, Scheme]:
        """The schemes of what a module defines. Raises FunctionalError."""
        self._declare_datatypes(module)
        self._refuse_duplicates(module)
        for declaration in module.declarations:
            if isinstance(declaration, s.Signature):
                self._define(declaration.name, self.signature(declaration), declaration)
        for group in definition_groups(module):
            self._definition_group(group)
        return self.defined

    def signature(self, signature: s.Signature) -> Scheme:
        """The scheme that a signature states."""
        self._named = {}
        mark = self.solver.mark
        with self.deeper():
            type_ = self.signature_type(signature)
            for condition in signature.conditions:
                self.condition(condition)
        return self.solver.generalise(type_, mark)

    def signature_type(self, signature: s.Signature) -> Term:
        """The type that a signature states, before it is generalised."""
        return self.read_type(signature.type)

    def condition(self, condition: s.Condition) -> None:
        """Demand what a signature's `where` says. The base knows no classes."""
        raise UnknownType("this language has no such condition", span=condition.span)

    def include_datatype(self, datatype: s.Datatype) -> None:
        """Make the types and patterns of a datatype known, without its constructors' names."""
        self.datatypes[datatype.name] = datatype
        self._arity[datatype.name] = len(datatype.parameters)
        self.constructors.update((c.name, datatype) for c in datatype.constructors)

    def _declare_datatypes(self, module: s.Module) -> None:
        datatypes = [d for d in module.declarations if isinstance(d, s.Datatype)]
        for datatype in datatypes:
            self.include_datatype(datatype)
        for datatype in datatypes:
            for constructor in datatype.constructors:
                scheme = self._constructor_scheme(datatype, constructor)
                self._define(constructor.name, scheme, constructor)

    def _constructor_scheme(self, datatype: s.Datatype, constructor: s.Constructor) -> Scheme:
        self._named = {}
        mark = self.solver.mark
        with self.deeper():
            names = datatype.parameters
            parameters = {name: self.solver.fresh("type", name) for name in names}
            self._named.update(parameters)
            result = Con(datatype.name, tuple(parameters.values()))
            fields = [self.read_type(field) for field in constructor.fields]
            for name in self._named.keys() - parameters.keys():
                raise UnknownType(
                    f"`{name}` is not a parameter of `{datatype.name}`", span=constructor.span
                )
        if not fields:
            return self.solver.generalise(result, mark)
        argument = fields[0] if len(fields) == 1 else product(*fields)
        return self.solver.generalise(arrow(argument, result), mark)

    def _refuse_duplicates(self, module: s.Module) -> None:
        seen: dict[str, Span] = {}
        for declaration in module.declarations:
            if isinstance(declaration, (s.Definition, s.Signature, s.Datatype)):
                if declaration.name in seen:
                    raise DuplicateName(
                        f"`{declaration.name}` is defined twice", span=declaration.span
                    ).with_note("first here", seen[declaration.name])
                seen[declaration.name] = declaration.span

    def _define(self, name: str, scheme: Scheme, node: s.Node) -> None:
        self.defined[name] = scheme
        self.schemes[node] = scheme
        self._scope.setdefault(name, []).append(scheme)

    def _definition_group(self, group: Sequence[s.Definition]) -> None:
        self._named = {}
        mark = self.solver.mark
        with self.deeper():
            assumed = {d.name: self.solver.fresh() for d in group}
            for name, variable in assumed.items():
                self._scope.setdefault(name, []).append(Scheme((), (), variable))
            for definition in group:
                found = self.definition(definition)
                self.agree(assumed[definition.name], found, definition.name_span, "definition")
            for name in assumed:
                self._scope[name].pop()
        self.check_names(self._named)  # before sizes are restated, and after all is decided
        schemes = [self._closed(definition, assumed[definition.name], mark) for definition in group]
        self.check_names(self._named)
        for definition, scheme in zip(group, schemes, strict=True):
            self._define(definition.name, scheme, definition)

    def _closed(self, definition: s.Definition, type_: Term, mark: int) -> Scheme:
        if definition.parameters or self.generalises(definition.body):
            return self.solver.generalise(type_, mark)
        return Scheme((), (), self.solver.kept(type_))

    def definition(self, definition: s.Definition) -> Term:
        """The type of a definition, before it is generalised."""
        return self._function(definition.parameters, definition.result, definition.body)
