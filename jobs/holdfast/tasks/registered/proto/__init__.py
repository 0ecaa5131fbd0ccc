"""Protobuf's schema language: its text, and the columns that ksqlDB sees in a message."""
