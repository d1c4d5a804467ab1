"""Training of the compared systems that learn: on the CPU, in seconds to minutes, on a frozen text encoder."""
