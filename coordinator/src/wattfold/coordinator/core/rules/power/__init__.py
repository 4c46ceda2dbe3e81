"""Rules for the budget: caps, budgets, emergencies and admission of nodes."""
