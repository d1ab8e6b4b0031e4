"""Timelines as files: Perfetto's (and Chrome's) trace JSON."""

from tawa.base.timeline import perfetto

__all__ = ["perfetto"]
