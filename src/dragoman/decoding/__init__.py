"""Choosing what to write: search, and sentences in and out."""
