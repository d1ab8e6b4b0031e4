"""Axon functions as ONNX models, which onnxruntime runs on the CPU.

`graph` holds a model in the making, `rules` says what each operator becomes, `trace` runs a program
on symbols instead of arrays, and `compile` keeps a session for each combination of shapes.
"""
