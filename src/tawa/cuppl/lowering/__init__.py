"""From the elaborated core to what runs under a chosen inference method.

In order: effects.py (what draws and factors do), suspension.py (which functions may suspend),
tail.py (tail calls), guards.py (limits on recursion), machine.py (suspending functions become one
resumable function with explicit frames).
"""
