"""The commands: arguments, progress, tables and messages."""
