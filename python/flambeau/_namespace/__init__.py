"""What the top-level namespace has beside the ops of the core: functions written in Python,
settings, streams, the tensor types of old."""
