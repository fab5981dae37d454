"""What commands print: results on standard output; progress and errors on standard error."""
