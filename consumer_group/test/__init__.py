"""Tests of consumer_group."""
