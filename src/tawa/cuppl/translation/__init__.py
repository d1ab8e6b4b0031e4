"""Natives: functions in a small part of Python, translated to the core."""
