"""Decoding algorithms (section 6.1): ids in, hypotheses out."""
