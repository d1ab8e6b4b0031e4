"""Axon on the GPU: functions as kernels of the tile language.

A call's sizes turn a function into a graph of primitive nodes (`trace`), which is rewritten
(`lower`), cut into kernels (`fusion`), written as source in the tile language (`kernels`,
`product`, `attend`), compiled once for all sizes (`library`), and laid out in memory (`plan`).
"""
