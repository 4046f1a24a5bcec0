"""Errors, TOML, files and the machine: what every other folder needs."""
