"""Descriptions of the policies whose algorithms are in files of their own."""
