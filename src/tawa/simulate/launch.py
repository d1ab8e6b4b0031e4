"""What a launch of a module by hand needs: its kernel, and the spec that names its arguments."""

from tawa.simulate.interpret.launch import kernel_of, spec_of

__all__ = ["kernel_of", "spec_of"]
