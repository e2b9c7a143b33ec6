"""`python -m romkit`: the command line where no script `romkit` is on the path."""

from romkit.cli import main

if __name__ == "__main__":
    main()
