"""Configuration of the coordinator: file, flags, and the settings that they give."""
