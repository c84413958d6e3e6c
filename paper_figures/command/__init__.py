"""`reproduce-paper`: measures what is missing, makes the report, and keeps what is made from it up to date."""
