"""Other brokers to measure ourselves against: installed on demand, run as child processes."""
