"""D'Amico, Jokanovic and Corbalan, ICPP 2019: slowdown-driven malleable backfill, run again."""
