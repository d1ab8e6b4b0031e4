"""Operators of the domain ai.onnx.ml: encoders and trees."""

from __future__ import annotations

from onnx import TensorProto

from tawa.axon.onnx.context import Context, IllFormed, rule
from tawa.axon.onnx.values import Value, tensor
from tawa.axon.sizes.dims import ONE, Dim


@rule("ai.onnx.ml:CategoryMapper")
def category_mapper(context: Context) -> Value:
    """The input's shape: names become numbers, or numbers names."""
    numbers, names = (context.attribute(name) for name in ("cats_int64s", "cats_strings"))
    if numbers is None or names is None or len(numbers) != len(names):
        raise IllFormed("`cats_int64s` and `cats_strings` are not as many")
    return tensor(context.dims(0))


@rule("ai.onnx.ml:OneHotEncoder")
def one_hot_encoder(context: Context) -> Value | None:
    """A new last axis, as long as there are categories."""
    given = [context.attribute(name) for name in ("cats_int64s", "cats_strings")]
    known = [categories for categories in given if categories]
    if len(known) != 1:
        raise IllFormed("it has not exactly one list of categories")
    dims = context.dims(0)
    return None if dims is None else tensor([*dims, Dim.of(len(known[0]))])


@rule("ai.onnx.ml:LabelEncoder")
def label_encoder(context: Context) -> Value:
    """The input's shape: each key becomes its value."""
    given = context.attributes
    for kind in ("keys", "values"):
        if sum(name.startswith(f"{kind}_") for name in given) > 1:
            raise IllFormed(f"it has two lists of {kind}")
    default, values = given.get("default_tensor"), given.get("values_tensor")
    if default is not None:
        if list(default.t.dims) != [1]:
            raise IllFormed("its default is not one value")
        if values is not None and values.t.data_type != default.t.data_type:
            raise IllFormed("its default is not of the values' type")
    return tensor(context.dims(0))


NODES = ("nodes_featureids", "nodes_splits", "nodes_modes", "nodes_truenodeids",
         "nodes_falsenodeids", "nodes_trueleafs", "nodes_falseleafs")  # fmt: skip
"""The attributes that a tree lists once for each of its nodes."""


@rule("ai.onnx.ml:TreeEnsemble")
def tree_ensemble(context: Context) -> Value | None:
    """A row of targets for each row."""
    given = context.attributes
    sizes = {name: _length(context, name) for name in NODES if name in given}
    if len(set(sizes.values())) > 1:
        raise IllFormed("its lists of nodes are not equally long")
    if _length(context, "leaf_targetids") != _length(context, "leaf_weights"):
        raise IllFormed("`leaf_targetids` and `leaf_weights` are not equally long")
    element = context.value(0).element
    for name in ("nodes_splits", "leaf_weights"):
        if element and name in given and given[name].t.data_type not in (element, 0):
            raise IllFormed(f"`{name}` is not of the input's type")
    dims = context.dims(0)
    return None if dims is None else tensor([dims[0], Dim.of(context.attribute("n_targets", 1))])


def _length(context: Context, name: str) -> int:
    value = context.attributes.get(name)
    if value is None:
        return 0
    is_tensor = value.t.data_type != TensorProto.UNDEFINED
    return value.t.dims[0] if is_tensor else len(context.attribute(name))


def _rows(context: Context) -> Dim | None:
    """How many rows an input has: a vector is one. None if it is neither that nor a matrix."""
    dims = context.dims(0)
    if dims is None or len(dims) not in (1, 2):
        return None
    return dims[0] if len(dims) == 2 else ONE


def _labels(context: Context, *names: str) -> int:
    """How many classes the attributes with these names list; 0 if that isn't clear."""
    given = [context.attribute(name) for name in names]
    known = [labels for labels in given if labels]
    return len(known[0]) if len(known) == 1 else 0


@rule("ai.onnx.ml:LinearRegressor")
def linear_regressor(context: Context) -> Value | None:
    """A row of targets for each row."""
    rows = _rows(context)
    return None if rows is None else tensor([rows, Dim.of(context.attribute("targets", 1))])


@rule("ai.onnx.ml:SVMRegressor")
def svm_regressor(context: Context) -> Value | None:
    """A number for each row."""
    rows = _rows(context)
    return None if rows is None else tensor([rows, ONE])


@rule("ai.onnx.ml:TreeEnsembleRegressor")
def tree_regressor(context: Context) -> Value | None:
    """A row of targets for each row."""
    rows = _rows(context)
    return None if rows is None else tensor([rows, Dim.of(context.attribute("n_targets", 1))])


@rule("ai.onnx.ml:LinearClassifier")
def linear_classifier(context: Context) -> list[Value]:
    """A class for each row, and the scores of all: one intercept is enough for two classes."""
    labels = _labels(context, "classlabels_ints", "classlabels_strings")
    intercepts = len(context.attribute("intercepts", []))
    is_clear = labels >= 2 and (intercepts == labels or (labels == 2 and intercepts == 1))
    return _classified(context, labels if is_clear else 0)


@rule("ai.onnx.ml:SVMClassifier")
def svm_classifier(context: Context) -> list[Value]:
    """A class for each row, and scores of classes or of pairs of them."""
    return _classified(context, 0)


@rule("ai.onnx.ml:TreeEnsembleClassifier")
def tree_classifier(context: Context) -> list[Value]:
    """A class for each row, and the scores of all."""
    labels = _labels(context, "classlabels_int64s", "classlabels_strings")
    return _classified(context, labels if labels >= 2 else 0)


def _classified(context: Context, scores: int) -> list[Value]:
    rows = _rows(context)
    if rows is None:
        return []
    return [tensor([rows]), tensor([rows, Dim.of(scores) if scores else context.fresh()])]
