"""The companion of `dragoman`: the paper's claims, tables, figures and sections beside the tool."""
