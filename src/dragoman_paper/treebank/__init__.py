"""Constituency parsing (section 6.3): trees as symbols, and their scores."""
