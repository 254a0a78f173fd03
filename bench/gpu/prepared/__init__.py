"""What `bench/gpu/kit` is made of: parts that travel to a machine with an accelerator, the calls that bring them, and the steps
that run there."""
