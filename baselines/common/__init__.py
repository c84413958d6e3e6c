"""Parts shared by baselines of several families; it imports none of them."""
