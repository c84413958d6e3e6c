"""What is asked for: a configuration as cases, contestants and limits, before anything runs."""
