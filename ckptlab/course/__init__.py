"""Teach: questions, predictions, reveals, pictures. Plain numbers in, no torch."""
