"""`python -m asyncsim`: the command line."""

from asyncsim.app.cli import main

if __name__ == "__main__":
    main()
