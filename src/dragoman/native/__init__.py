"""The fast twin: replacements for modules and searches, each tested against its oracle."""
