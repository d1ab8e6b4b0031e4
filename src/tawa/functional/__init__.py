"""The ML-like core that Axon and CuPPL share: syntax, modules, Hindley-Milner inference.

`docs/functional.md` describes how a language is built on it.
"""
