"""`python -m qtg_dagster`: the command line."""

from qtg_dagster.cli import main

if __name__ == "__main__":
    main()
