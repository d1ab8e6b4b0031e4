"""Layers of networks that convolutions are measured on, of one to three dimensions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

TWELVE = {
    1: (3, 227, 96, 11, 4), 2: (3, 231, 96, 11, 4), 3: (3, 227, 64, 7, 2),
    4: (64, 224, 64, 7, 2), 5: (96, 24, 256, 5, 1), 6: (256, 12, 512, 3, 1),
    7: (3, 224, 64, 3, 1), 8: (64, 112, 128, 3, 1), 9: (64, 56, 64, 3, 1),
    10: (128, 28, 128, 3, 1), 11: (256, 14, 256, 3, 1), 12: (512, 7, 512, 3, 1),
}  # fmt: skip
"""Channels, rows and columns, filters, taps each way, and stride of the twelve layers."""

VGG16 = [(3, 224, 64), (64, 224, 64), (64, 112, 128), (128, 112, 128), (128, 56, 256),
         (256, 56, 256), (256, 28, 512), (512, 28, 512), (512, 14, 512)]  # fmt: skip
UNET = [(64, 256, 64), (128, 128, 128), (256, 64, 256), (512, 32, 512), (1024, 16, 1024),
        (1024, 32, 512), (512, 64, 256), (256, 128, 128), (128, 256, 64)]  # fmt: skip
"""Channels, rows and columns, filters; those of the way up read twice the channels."""
RESNET50 = [
    (3, 224, 64, 7, 2), (64, 56, 64, 1, 1), (64, 56, 64, 3, 1), (64, 56, 256, 1, 1),
    (256, 56, 64, 1, 1), (256, 56, 128, 1, 1), (128, 56, 128, 3, 2), (256, 56, 512, 1, 2),
    (128, 28, 512, 1, 1), (512, 28, 128, 1, 1), (128, 28, 128, 3, 1), (512, 28, 256, 1, 1),
    (256, 28, 256, 3, 2), (512, 28, 1024, 1, 2), (256, 14, 1024, 1, 1), (1024, 14, 256, 1, 1),
    (256, 14, 256, 3, 1), (1024, 14, 512, 1, 1), (512, 14, 512, 3, 2), (1024, 14, 2048, 1, 2),
    (512, 7, 2048, 1, 1), (2048, 7, 512, 1, 1), (512, 7, 512, 3, 1),
]  # fmt: skip
DEPTHWISE = [(32, 112, 3, 1), (96, 112, 3, 2), (144, 56, 3, 1), (144, 56, 5, 2), (240, 28, 5, 1),
             (240, 28, 3, 2), (480, 14, 3, 1), (480, 14, 5, 1), (672, 14, 5, 1), (672, 14, 5, 2),
             (1152, 7, 5, 1), (1152, 7, 3, 1)]  # fmt: skip
"""EfficientNet-B0's: channels, rows and columns, taps, stride."""
VIDEO = [(16, 5, 60, 90, 512), (512, 5, 60, 90, 512), (512, 9, 120, 180, 256),
         (256, 17, 240, 360, 128), (128, 17, 240, 360, 3)]  # fmt: skip
"""A causal autoencoder of videos: channels, pictures, rows, columns, filters; 3 x 3 x 3 taps."""
SEQUENCES = [(4096, 2048, 4, 4096), (8192, 1024, 4, 8192), (512, 8192, 3, 1), (1280, 1500, 3, 1)]
"""Channels, length, taps, groups: two causal ones of state-space models, two of speech."""
NETWORKS = "twelve", "vgg16", "unet", "resnet50", "efficientnet", "video", "sequences"


@dataclass(frozen=True)
class Case:
    """One layer of one network; shapes are those of channels-last memory."""

    layer: str
    x: tuple[int, ...]
    w: tuple[int, ...]
    stride: int
    pad: tuple[tuple[int, int], ...]
    groups: int = 1

    @property
    def dimensions(self) -> int:
        """Between the images and the channels."""
        return len(self.x) - 2

    @property
    def causal(self) -> bool:
        """Whether there is more padding on one side."""
        return any(before != after for before, after in self.pad)

    @property
    def results(self) -> tuple[int, ...]:
        """The extents of the result."""
        sizes = zip(self.x[1:-1], self.w[1:-1], self.pad, strict=True)
        return tuple((n + sum(pad) - taps) // self.stride + 1 for n, taps, pad in sizes)

    def row(self, what: str, *, bias: bool, dtype: str) -> dict[str, Any]:
        """What names the work."""
        pad: Any = self.pad if self.causal else self.pad[0][0]
        return {
            "layer": self.layer, "pass": what, "bias": bias, "dtype": dtype, "x": list(self.x),
            "w": list(self.w), "stride": self.stride, "pad": pad, "groups": self.groups,
        }  # fmt: skip

    @property
    def arguments(self) -> dict[str, Any]:
        """Of this project's functions."""
        return {"stride": self.stride, "padding": self.pad, "groups": self.groups}

    def passes(self, what: str) -> bool:
        """Whether a pass is measured: gradients of layers that PyTorch pads itself."""
        return what in ("forward", "fused") or not self.causal


def square(
    layer: str, n: int, c: int, size: int, k: int, taps: int, stride: int, pad: int, groups: int = 1
) -> Case:
    """A layer of square images and filters."""
    own = c // groups
    return Case(layer, (n, size, size, c), (k, taps, taps, own), stride, ((pad, pad),) * 2, groups)


def _squares(network: str, n: int) -> Iterator[Case]:
    """The layers of networks of square images."""
    if network == "twelve":
        for number, (c, size, k, taps, stride) in TWELVE.items():
            yield square(f"conv{number}", n, c, size, k, taps, stride, 0)
    elif network == "resnet50":
        for c, size, k, taps, stride in RESNET50:
            name = f"resnet50 {c}-{k} {size} {taps}x{taps}/{stride}"
            yield square(name, n, c, size, k, taps, stride, taps // 2)
    elif network == "efficientnet":
        for c, size, taps, stride in DEPTHWISE:
            name = f"efficientnet {c} {size} {taps}x{taps}/{stride}"
            yield square(name, n, c, size, c, taps, stride, taps // 2, c)
    else:
        for c, size, k in VGG16 if network == "vgg16" else UNET:
            yield square(f"{network} {c}-{k} {size}", n, c, size, k, 3, 1, 1)


def _videos(n: int) -> Iterator[Case]:
    pad = (2, 0), (1, 1), (1, 1)
    for c, d, h, w, k in VIDEO:
        yield Case(f"video {c}-{k} {d}x{h}x{w}", (n, d, h, w, c), (k, 3, 3, 3, c), 1, pad)


def _sequences(n: int) -> Iterator[Case]:
    for c, length, taps, groups in SEQUENCES:
        pad = ((taps - 1, 0),) if groups > 1 else ((taps // 2, taps // 2),)
        name = f"sequences {c} {length} {taps}{' depthwise' if groups > 1 else ''}"
        yield Case(name, (n, length, c), (c, taps, c // groups), 1, pad, groups)


def cases(network: str, images: list[int]) -> Iterator[Case]:
    """The layers of a network, for each number of images."""
    if network not in NETWORKS:
        raise SystemExit(f"no network {network}: one of {', '.join(NETWORKS)}")
    for n in images:
        if network == "video":
            yield from _videos(n)
        elif network == "sequences":
            yield from _sequences(n)
        else:
            yield from _squares(network, n)
