"""Programs that prepare the project for other machines, or measure a constant; the harness imports none of them."""
