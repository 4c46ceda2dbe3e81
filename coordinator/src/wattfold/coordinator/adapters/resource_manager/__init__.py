"""The resource manager of the site: what it reports, and what it is told."""
