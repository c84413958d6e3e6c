"""Timing in small parts: one call (`stopwatch`), many calls of many contestants (`rounds`), and what goes on meanwhile
(`telemetry`).  Nothing here knows what is being timed.
"""
