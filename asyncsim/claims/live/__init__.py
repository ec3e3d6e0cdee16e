"""Claims on trainers with processes and real clocks."""
