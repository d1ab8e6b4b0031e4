"""One description of the machine: limits, instructions, costs and memory.

Each figure stands here once, with its source. Who schedules, lays out, generates code, predicts a
time or chooses a tile reads it from here.

- [figures.py](figures.py): a figure and where it comes from.
- [limits.py](limits.py): what a multiprocessor has and a launch may ask for.
- [instructions.py](instructions.py): what instructions take.
- [costs.py](costs.py): what instructions cost, for the scheduler and the timing model.
- [scheduling.py](scheduling.py), [timing.py](timing.py): what either reckons with besides.
- [thresholds.py](thresholds.py): where passes decide otherwise, and registers that code takes.
- [memory.py](memory.py): what the caches and device memory give, by chip.
- [products.py](products.py): terms of the library's models of a product's time.
- [chips.py](chips.py): the H100 and the H200.
"""
