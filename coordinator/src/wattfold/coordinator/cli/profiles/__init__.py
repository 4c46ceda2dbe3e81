"""Commands for profiles and certificates: measure, show and delete."""
