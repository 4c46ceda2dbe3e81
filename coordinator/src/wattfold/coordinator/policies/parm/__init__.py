"""PARM (Sarood et al., SC14): sizes and caps of all jobs from an integer program."""
