"""The parts of ``flambeau.nn.functional``, one family a file."""
