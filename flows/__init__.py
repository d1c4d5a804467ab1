"""What this repository's deployments point at; thin, since the flows themselves live in the library."""
