"""Shape inference of ONNX models with Axon's solver.

The rules follow the operator specifications of ONNX (opset 24); a rule says how the sizes of a
node's outputs derive from its inputs, and demands what has to hold of them.
"""
