"""Logs on disk, in Kafka's file names and formats. A ladder: each rung knows only the ones below it.

file_range.py      an open file, a bounded pool of them, and a range of bytes to send
checkpoint.py      small text files, replaced atomically
index_file.py      fixed-size entries, searched; offset_index.py and time_index.py give them meaning
segment_file.py    the bytes of one `.log` file: append, read, walk batch headers, scan
segment.py         one segment: its file and both indexes
epochs.py          which leader epoch started where (R20-R23)
producer_state.py  idempotent producers (R40-R43)
partition_log.py   the log of one partition; recovery.py opens it, retention.py says what may go
log_dir.py         one data directory: lock, identity, clean-shutdown marker, checkpoints
log_manager.py     all logs of a broker
flusher.py         group commit in a thread for each data directory
"""
