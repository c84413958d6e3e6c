"""Programs that prepare the project for other machines; nothing here is imported by the harness."""
