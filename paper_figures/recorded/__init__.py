"""What was run: experiments, campaigns of recorded runs, and which run speaks for which case."""
