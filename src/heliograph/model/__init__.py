"""Values and rules, pure; standard library only."""
