"""Commands for the site: nodes, power, the live view, the audit trail."""
