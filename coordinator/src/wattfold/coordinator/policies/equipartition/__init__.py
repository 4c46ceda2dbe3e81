"""Equipartition (Kale et al., CCGrid 2002): equal shares of nodes and power."""
