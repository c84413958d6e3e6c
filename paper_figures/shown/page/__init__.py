"""What a page shows beside its tables: findings, charts that answer, the table of winners, the overview."""
