"""What happens to nodes: reports, orders, leases, sleep and reservations."""
