"""`python -m ippath` is the command line."""

from ippath.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
