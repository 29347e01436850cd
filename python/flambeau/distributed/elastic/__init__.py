"""What programs import from the launcher of several processes."""
