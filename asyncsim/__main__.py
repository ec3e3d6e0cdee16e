"""`python -m asyncsim`: the command line."""

from asyncsim.cli import main

if __name__ == "__main__":
    main()
