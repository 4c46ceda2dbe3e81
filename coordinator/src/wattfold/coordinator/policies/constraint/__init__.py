"""The CP scheduler of Bridi et al.: planned starts of the whole queue."""
