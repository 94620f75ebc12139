"""The command line, the local cluster and the benchmarks."""
