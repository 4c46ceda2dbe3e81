"""Connections of people and programs: accounts, access rights, the service and the audit trail."""
