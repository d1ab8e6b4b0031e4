"""ONNX models as a surface of Axon: `from_onnx`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tawa.axon.typing.errors import UnsupportedModel
from tawa.base.extras import require
from tawa.base.user_frames import entries, entry

if TYPE_CHECKING:
    import numpy as np
    from onnx import ModelProto

    from tawa.axon.onnx.own_rules import OwnRule
    from tawa.axon.onnx.shapes import ModelShapes


@entries
class OnnxModel:
    """A model whose shapes can be inferred.

    `dims` gives inputs other sizes than the model does: numbers, or names for symbols. `rules` say
    what shapes operators of its own give: by domain and name, a signature or a function of shapes
    (see `tawa.axon.onnx.own_rules`). Raises BadRule, and FunctionalError for a bad signature.
    """

    def __init__(
        self,
        model: ModelProto,
        dims: dict[str, Sequence[int | str] | None] | None = None,
        constants: dict[str, np.ndarray] | None = None,
        rules: Mapping[str, OwnRule] | None = None,
    ) -> None:
        from tawa.axon.onnx.own_rules import own_rules

        self.model = model
        self.dims = dims
        self.constants = constants
        self.rules = own_rules(rules or {})

    def __repr__(self) -> str:
        graph = self.model.graph
        return f"<onnx model {graph.name or 'without a name'}: {len(graph.node)} nodes>"

    def shapes(self) -> ModelShapes:
        """The shapes of all values. Raises ShapeMismatch, UnsupportedModel, and BadRule."""
        from tawa.axon.onnx.graph import ModelInference

        inference = ModelInference(self.model, strict=True, rules=self.rules)
        return inference.run(self.dims, self.constants)


@entry
def from_onnx(
    model: ModelProto | str | Path,
    dims: dict[str, Sequence[int | str] | None] | None = None,
    rules: Mapping[str, OwnRule] | None = None,
) -> OnnxModel:
    """Read an ONNX model (from a file, if given a path). Needs the `axon` extra.

    `dims` and `rules` are what `OnnxModel` says. Raises UnsupportedModel when it can't be read.
    """
    require("axon", "reading ONNX models", "onnx")
    import onnx

    if isinstance(model, str | Path):
        try:
            model = onnx.load(str(model), load_external_data=False)  # pyright: ignore[reportUnknownMemberType]
        except Exception as error:
            program = Path(model).suffix == ".ax"
            raise UnsupportedModel(
                f"{model} is not an ONNX model: {error}",
                hint=f"types of an Axon program: tawa axon infer {model}" if program else None,
            ) from error
    if not model.HasField("graph"):
        raise UnsupportedModel("the model has no graph")
    return OnnxModel(model, dims, rules=rules)
