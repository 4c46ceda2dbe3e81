"""Plans of a queue by list scheduling: units of jobs on nodes with several resources."""
