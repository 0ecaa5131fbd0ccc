"""All that touches Spark's JVM: sessions, private calls, class archives, the daemon of workers."""
