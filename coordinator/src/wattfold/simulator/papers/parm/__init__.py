"""Evaluation of PARM (Sarood et al., SC14): cluster, large machine, naive, fairness, levels."""
