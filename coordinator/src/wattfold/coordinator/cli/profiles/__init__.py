"""Commands of profiles and certificates: measure, look, drop."""
