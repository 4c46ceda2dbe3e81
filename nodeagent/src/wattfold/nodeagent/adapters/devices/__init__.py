"""Devices with a power limit: RAPL, HSMP and GPUs, and their emulation."""
