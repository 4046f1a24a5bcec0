"""Errors, TOML, files and the machine: what every floor needs."""
