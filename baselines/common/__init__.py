"""What baselines of several families share; it imports none of them."""
