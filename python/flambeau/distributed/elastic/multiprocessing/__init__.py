"""Processes that a launcher starts."""
