"""The ledger of committed power, and the caps that follow from it."""
