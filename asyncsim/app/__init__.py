"""What the command line does, and what is printed: words, reports, judgments, streams."""
