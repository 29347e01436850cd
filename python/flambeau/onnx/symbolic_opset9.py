"""Version 9 of ONNX's operators. Nothing is exported, so nothing of it is here."""
