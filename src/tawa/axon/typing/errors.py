"""What can be wrong with an Axon program, besides what can be with any functional one."""

from __future__ import annotations

from tawa.base.errors import TawaError


class AxonError(TawaError, group=True):
    """Base of Axon's errors."""


class ShapeMismatch(AxonError):
    """Two shapes that have to agree do not, or a condition on sizes can't hold."""

    explanation = (
        "The message names both shapes and the place where they meet. The notes name the other "
        "places that, together with it, can't all be right: the smallest such set. Change one of "
        "them."
    )
    example = (
        "from tawa.axon.typing.language import axon\n"
        "axon().check('def f (x: f32[b, 3]) (w: f32[4, 5]) = x @ w')"
    )


class NoFunction(AxonError, KeyError):
    """A loaded module has no function of this name."""

    explanation = "`axon.load(...)` gives the functions that the text defines, by name."
    example = "from tawa import axon\naxon.load('def f x = x')['g']"


class FunctionNotChosen(AxonError):
    """A loaded module stands where one of its functions is meant."""

    explanation = '`module["name"]` is a function of a module that `axon.load(...)` gave.'
    example = "from tawa import axon\naxon.compile(axon.load('def f x = x'))"


class NamedSizesAgree(AxonError):
    """A size that an annotation names is a number, or another named size."""

    explanation = (
        "A name in an annotation stands for a size that may be anything, and different names "
        "stand for different sizes. The program only works if two names are one size, or if one "
        "is a number. Usually operands are swapped or a transpose is missing, at the place that "
        "the message points to. If it is meant, write the same name, the number, or `?n`: a "
        "flexible name may turn out to be anything."
    )
    example = (
        "from tawa.axon.typing.language import axon\n"
        "axon().check('def f (x: f32[h, w]) (y: f32[h, w]) = x .+ transpose y')"
    )


class OtherLayout(AxonError):
    """A pattern takes an axis apart in another order than its annotation says."""

    explanation = (
        "`t[b, h*k]` says that an axis consists of `h` groups of `k` numbers: the first factor is "
        "the outermost. A pattern `(k h)` has the right sizes, and takes the wrong numbers "
        "together. Change the order in the pattern. If the axis is laid out as the pattern says, "
        "change the order of the product in the annotation."
    )
    example = (
        "from tawa.axon.typing.language import axon\n"
        "axon().check('def f{h} (x: f32[n, h*k]) = '\n"
        "             'rearrange{\"n (k h) -> n h k\", h = h} x')"
    )


class BadPattern(AxonError):
    """The pattern of an `einsum` or `rearrange` can't be read."""

    explanation = (
        "A pattern names the axes of each input, separated by commas, then `->` and the axes of "
        "the output. `..b` stands for any number of axes, `(h d)` for one axis of size h*d."
    )
    example = (
        "from tawa.axon.typing.language import axon\n"
        "axon().check('def f x = rearrange{\"a b -> a c\"} x')"
    )


class StaticArgumentError(AxonError):
    """A static argument is missing, unknown, or of the wrong kind."""

    explanation = "Static arguments stand in braces and must be known when the graph is compiled."
    example = (
        "from tawa.axon.typing.language import axon\naxon().check('def f x = sum{axes = 1} x')"
    )


class ContractViolation(AxonError):
    """Arrays that a function is called with don't fit its type."""

    explanation = (
        "The type of the function says which shapes it takes. The message names the argument, "
        "its actual shape, and the demand that it breaks."
    )
    example = (
        "import numpy as np\n"
        "from tawa import axon\n"
        "f = axon.load('def f x w = x @ w')['f']\n"
        "f(np.ones((2, 3)), np.ones((4, 5)))"
    )


class WeightMismatch(AxonError):
    """Weights from a file or a state dict are not those that a function takes."""

    explanation = (
        "`axon.weights` looks for each weight of a function by name. It checks sizes and element "
        "types against the function's type: a size that two weights share has to be the same in "
        "both. The message names the first weight that is missing or does not fit, the notes the "
        "others. `names` says which name of the source is which weight; `name.T` is a matrix that "
        "lies transposed."
    )
    example = (
        "import numpy as np\n"
        "from tawa import axon\n"
        "module = axon.load('def f (w, b) x = linear w b x')\n"
        "axon.weights(module['f'], {'w': np.ones((3, 4)), 'b': np.ones(5)})"
    )


class NoDerivative(AxonError):
    """A function has no derivative, or its argument is not a tensor."""

    explanation = (
        "`grad f` takes derivatives by the numbers of `f`'s argument: a tensor, or tuples of them. "
        "The operator that the message points to has no derivative, or the argument is a function."
    )
    example = (
        "import numpy as np\n"
        "from tawa import axon\n"
        "f = axon.load('def f x = (grad (fn (g, y) -> sum_all (g y)) (exp, x)).1')['f']\n"
        "f(np.ones(3))"
    )


class RunTimeError(AxonError):
    """An operator failed while a program ran."""

    explanation = "A check that could not be decided before failed on the actual values."
    example = (
        "import numpy as np\n"
        "from tawa import axon\n"
        "f = axon.load('def f x i = take x i')['f']\n"
        "f(np.ones((2, 3)), np.array(5))"
    )


class BadRule(AxonError):
    """A rule for an operator of a model's own can't be used."""

    explanation = (
        '`axon.from_onnx(model, rules={"my:Gate": ...})` takes a signature (`"t[..s, 2*n] -> '
        't[..s, n]"`), or a function that is given the node and the shapes of its inputs, and '
        "gives a list of the shapes of its outputs. An error in that function is shown with it."
    )
    example = (
        "import onnx\n"
        "from tawa import axon\n"
        "value = onnx.helper.make_tensor_value_info('x', onnx.TensorProto.FLOAT, [1])\n"
        "node = onnx.helper.make_node('Gate', ['x'], ['y'], domain='my')\n"
        "model = onnx.helper.make_model(onnx.helper.make_graph([node], 'g', [value], []))\n"
        "axon.from_onnx(model, rules={'my:Gate': '(t[n] -> t[n]) -> t[n]'})"
    )


class UnsupportedModel(AxonError):
    """An ONNX model can't be read."""

    explanation = "The message names the operator, or the part of the file, that is not supported."
    example = (
        "import onnx\n"
        "from tawa import axon\n"
        "value = onnx.helper.make_tensor_value_info('x', onnx.TensorProto.FLOAT, [1])\n"
        "node = onnx.helper.make_node('Quux', ['x'], ['y'])\n"
        "graph = onnx.helper.make_graph([node], 'g', [value], [])\n"
        "axon.from_onnx(onnx.helper.make_model(graph)).shapes()"
    )
