"""Other recorders, each in an environment of its own beside us: `environments` makes it, `inside` runs there."""
