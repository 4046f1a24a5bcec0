"""Files of any format in, the same files translated out: one format a file. See docs/documents.md."""
