"""The pages of the documentation that are made from code or from recordings: each has its writer here."""
