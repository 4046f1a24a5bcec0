"""What the site's pages are made of: pages from the code and from results, and the map of the paper."""
