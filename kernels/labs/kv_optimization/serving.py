"""What was decided before any request came."""

CONTEXT = 8192  # tokens that a request may grow to, prompt and answer together
PAGE = 16  # tokens in a page of a paged cache
