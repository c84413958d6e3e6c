"""What a reader sees: exhibits as tables and figures, and the report that holds them."""
