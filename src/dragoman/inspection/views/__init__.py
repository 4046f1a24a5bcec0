"""The pictures of a record, as SVG."""
