"""Logs on disk, in Kafka's file names and formats. A ladder: each rung knows only the ones below it.

file_range.py      an open file, a bounded pool of them, and a range of bytes to send
checkpoint.py      small text files, replaced atomically
index_file.py      fixed-size entries, searched; offset_index.py and time_index.py give them meaning
segment_file.py    the bytes of one `.log` file: append, walk batch headers, scan
segment.py         one segment: its file and both indexes
segment_list.py    the segments of a log: every way to look into them
epochs.py          which leader epoch started where (R20-R23)
producer_state.py  idempotent producers (R40-R43); snapshots.py keeps them in files
batch_rules.py     what a topic's settings ask of a batch; retention.py what they keep
log_dir.py         one data directory: lock, identity, clean-shutdown marker, checkpoints
log_writer.py      the growing end of a log: queue, write, roll, flush, take back
partition_log.py   the log of one partition; recovery.py opens it
flusher.py         group commit in a thread for each data directory; remover.py unlinks in one
log_manager.py     all logs of a broker
"""
