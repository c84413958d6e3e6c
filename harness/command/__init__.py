"""The commands: what a user types, sees and is told."""
