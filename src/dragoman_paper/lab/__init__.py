"""The lab: a file for each claim about the Transformer, which tests it with parts of the tool."""
