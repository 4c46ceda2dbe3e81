"""How fast jobs run and what they draw: the models every policy and the simulator share."""
