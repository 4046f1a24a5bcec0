"""Strings in, strings out: the model folder and the translator."""
