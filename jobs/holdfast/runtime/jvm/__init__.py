"""The interface to Spark's JVM: sessions, private calls, class archives, the worker daemon."""
