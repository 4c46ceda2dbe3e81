"""Mail about jobs, through a program of the site."""
