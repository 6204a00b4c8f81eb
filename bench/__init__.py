"""Measurements, incidents and the demo. Not part of the package."""
