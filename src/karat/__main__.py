"""`python -m karat`: the command line, where its script is not on the path."""

from karat.cli.main import run

if __name__ == "__main__":
    run()
