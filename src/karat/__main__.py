"""`python -m karat`: the command line, where its script is not on the path."""

from karat.cli.main import main

if __name__ == "__main__":
    main()
