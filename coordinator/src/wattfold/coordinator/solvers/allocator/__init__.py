"""PARM's integer program: the certified allocator, GLPK, HiGHS and the greedy fallback."""
