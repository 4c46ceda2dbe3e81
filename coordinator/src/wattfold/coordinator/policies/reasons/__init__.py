"""Explanations of decisions for users."""
