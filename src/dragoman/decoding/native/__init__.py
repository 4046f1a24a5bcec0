"""Beam search over the Transformer in C++, compiled once on the machine that it runs on; search.py says what it has to find."""
