"""Rows that stream: the rotary embedding, and dropout with addition and layer norm."""
