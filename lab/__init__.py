"""The lab: a file for each claim about the Transformer, which tests it with parts of this package.

The package never imports it; `dragoman lab` runs it.
"""
