"""Version 12 of ONNX's operators. Nothing is exported, so nothing of it is here."""
