"""What the recorded runs say of the published claims: quantities, intervals, verdicts."""
