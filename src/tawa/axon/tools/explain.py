"""What a definition requires of the sizes that it names."""

from __future__ import annotations

from tawa.axon.sizes.requirements import Requirement, requirements
from tawa.axon.typing.infer import AxonInference
from tawa.functional.language import CheckedModule


def definition_requirements(module: CheckedModule, name: str) -> list[Requirement]:
    """The requirements on the sizes named in a definition's annotations."""
    inference = module.inference
    if not isinstance(inference, AxonInference):
        raise TypeError("the module is not Axon")
    named = inference.named_sizes.get(name, {})
    return requirements(inference.solver, named)
