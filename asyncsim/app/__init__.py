"""The command line: commands and what they print, reports, judgments, output streams."""
