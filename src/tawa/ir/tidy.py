"""tidy: drop what is computed twice or for nothing."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.transforms.common_subexpression_elimination import cse
from xdsl.transforms.dead_code_elimination import dce

from tawa.ir.contracts import Contract
from tawa.ir.properties import TIDY


class Tidy:
    """Drop what is computed twice or for nothing."""

    name: ClassVar[str] = "tidy"
    contract: ClassVar[Contract] = Contract(establishes=(TIDY,))

    def apply(self, module: ModuleOp) -> None:
        """Common subexpressions, then dead ops."""
        cse(module)
        dce(module)
