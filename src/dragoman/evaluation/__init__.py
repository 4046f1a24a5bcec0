"""Scores of decoded text."""
