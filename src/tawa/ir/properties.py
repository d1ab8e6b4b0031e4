"""The properties that passes require, establish and invalidate: level by level."""

from __future__ import annotations

from tawa.ir.contracts import Property

# Of the tile level.
ONE_PROGRAM = Property("the kernel is one program")
ARGUMENT_DESCRIPTORS = Property("descriptors are arguments")
FUSED_SUMS = Property("a product accumulates into what it is added to")
WIDE_SUMS = Property("products accumulate in types that instructions add up in")

# Of the aref level.
ROLES = Property("roles exchange tiles through rings")
AS_PARTITIONED = Property("loads, gets and products are as partition leaves them")
GROUP_PRODUCTS = Property("products have warp-group instructions")
FINAL_RINGS = Property("rings are final")
OWN_ENDS = Property("loops end where a group's own rows do")
SKIPPED_WORK = Property("what mostly changes nothing is behind a question")
SPREAD_SUMS = Property("carried sums of rows are spread over lanes")
DOTS = Property("products are done when they are issued")
SCHEDULED = Property("loops are scheduled")
ASYNCHRONOUS = Property("products are asynchronous")
DEPTHS = Property("rings have their depths")
OPEN_SLOTS = Property("puts and gets name rings alone")
SLOTS = Property("slots and phases are filled in")

# Of the hopper level.
LOWERED = Property("no tile and no aref is left")
LAID_OUT = Property("everything has its place in shared memory")

# Of every level.
TIDY = Property("nothing is computed twice or for nothing")

AREF_LEVEL = (
    ROLES, AS_PARTITIONED, GROUP_PRODUCTS, FINAL_RINGS, OWN_ENDS, SKIPPED_WORK, SPREAD_SUMS, DOTS,
    SCHEDULED, ASYNCHRONOUS, DEPTHS, OPEN_SLOTS, SLOTS,
)  # fmt: skip
"""What is said of rings and roles, which the next level no longer has."""

AT_LEVEL = {
    "source": (ONE_PROGRAM,),
    "tile": (ONE_PROGRAM, TIDY),
    "aref": (
        ARGUMENT_DESCRIPTORS, ROLES, GROUP_PRODUCTS, FINAL_RINGS, OWN_ENDS, ASYNCHRONOUS, DEPTHS,
        SLOTS, TIDY,
    ),
    "hopper": (LOWERED, LAID_OUT, TIDY),
}  # fmt: skip
"""What holds of a module that has come to a level."""
