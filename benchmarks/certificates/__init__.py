"""Certificates of shipped models: their time, and how tight their bounds are."""
