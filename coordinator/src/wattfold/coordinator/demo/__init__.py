"""The demonstration: a small site on one machine, real jobs, two policies side by side."""
