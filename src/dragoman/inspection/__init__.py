"""What a model did while it translated: as data, as pictures, and as one HTML file."""
