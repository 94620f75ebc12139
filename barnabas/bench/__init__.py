"""Measurements of a broker from outside, alone or side by side with another broker.

    sample          what one run found, and what several runs say together (pure)
    alternate       A, B, A, B, ...: the order of runs, so that a busy machine is unfair to nobody
    target          a broker under measurement: its address, its process, the CPU it used
    workers         load generators as processes of their own, started together
    topics          topics made for a run and deleted after it
    payload         messages that look like log lines, so that codecs have something to do
    frames          requests encoded once and sent many times
    pipeline        raw sockets: N connections with W such requests in flight on each
    produce, fetch, latency, small_requests          one measurement each
    brokers, cases, compare, machine, report         the whole table against Apache Kafka, for docs/performance.rst

The client runs on the same machine as the broker and takes CPU from it; that is why every result has both the rate
and the broker's CPU per message, and why only ratios taken in one run mean something.
"""
