"""The resource manager of the site: its reports, and the orders to it."""
