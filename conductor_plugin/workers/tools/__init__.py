"""What the tool workers are made of: reading a request, exact arithmetic, algebra in a killable child process."""
