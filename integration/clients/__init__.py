"""One adapter per third-party client, all with the same two calls: write records to a partition, read them back."""
