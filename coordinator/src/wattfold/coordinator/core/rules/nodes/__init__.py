"""Rules for nodes: reports, orders, leases, sleep and reservations."""
