"""Where PyTorch keeps what `flambeau.library` is made of; libraries import from here too."""
