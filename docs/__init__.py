"""Pages that are generated: `python -m docs` writes them, and a test compares them with what the commands say."""
