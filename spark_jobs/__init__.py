"""Spark over the collected logs. Nothing is here yet.

What will live here: a Spark Python data source (batch and streaming, reading and writing) and the jobs. Executors run
these modules, so nothing here imports Twisted.
"""
