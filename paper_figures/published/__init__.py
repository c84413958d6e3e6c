"""What the paper says: its numbers with their citations, and its claims with their tolerances."""
