"""Axon on the GPU: functions as kernels of the tile language.

A call's sizes turn a function into a graph of primitive nodes (`trace`), which is rewritten and cut
into kernels (`graph`), written as source in the tile language (`kernels`, `product`, `attend`),
compiled once for all sizes (`library`), and launched (`plan`).
"""
