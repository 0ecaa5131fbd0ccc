"""The interface to Spark's JVM: its context, private calls, the class archive, the worker daemon.

These are the calls into Spark beyond PySpark's documented API.  The tests in
`tests/unit/runtime/jvm` run them in a real Spark and fail if a release changes one.  They pass with
PySpark 4.2 and 4.3 (classic, not Connect).

* `spark_internals.located`: `sc().makeRDD` with locations and `SerDeUtil.javaToPython`, for a task
  on each executor that is named.
  `test_a_task_prefers_the_location_that_it_is_given`
* `spark_internals.shuffled`: `RDD._bypass_serializer`, `PairwiseRDD`, `PythonPartitioner` and
  `PythonRDD.valueOfPair`, because PySpark's own `partitionBy` pickles batches of elements.
  `test_byte_arrays_are_moved_to_the_partitions_they_name`
* `spark_internals.on_owners`: `RDD(…)`, `RDD._jrdd` and `JavaRDD.cartesian`, which brings a
  shuffle's partition to its owner, and that Spark writes a persisted payload before it takes a
  Python worker.  `test_a_payloads_partition_prefers_its_owner`,
  `test_a_worker_outlives_a_payload_that_was_lost`, `test_a_payload_may_exceed_the_heap`
* `spark_internals._WholePairs`: the stream format of pairs and `SpecialLengths`, so that a payload
  that is cut off is an error.  `test_a_payload_that_is_cut_off_is_not_worked_on`
* `spark_internals.on_state_workers`: `PythonRDD.runJob`, `_load_from_socket` and
  `RDD._jrdd_deserializer`, because `SparkContext.runJob` wraps the function again.
  `test_only_the_wanted_partitions_are_run`
* `spark_internals.executors`: `sc().statusStore().executorList`, for the executors that are alive.
  `test_the_driver_is_no_executor`; every job of `tests/integration/runtime`
* `session.start_java`: `SparkContext._ensure_initialized` in a thread, so that Java starts while
  Python loads modules.  `test_a_java_that_was_started_early_is_the_drivers`
* `spark_internals.with_secret`, `jobs/state_table.py`: `SparkContext._active_spark_context` and
  `_ensure_initialized`, for a secret that is on no command line, and for spark-submit's master.
  `test_a_spark_of_ones_own_has_a_secret_no_numpy_and_an_end`
* `spark_internals.no_numpy_to_java`: py4j's `INPUT_CONVERTER` and PySpark's converters in it; they
  would import NumPy in the driver.  The same test.
* `spark_internals.leave_sigterm_to_python`: `SparkContext._gateway.proc`, and `sun.misc.Signal` of
  Java's module `jdk.unsupported`.  The same test; `test_starts.py`
* `class_training`, `k8s/images/holdfast/train.py`: `SparkContext._gateway.proc`, the JVM that
  writes its archive at its end.  The same test.
* `descriptions.stage`: the local property `callSite.short`, for the names of stages in Spark's UI.
  `test_descriptions.py`
* `python_daemon`: `pyspark.daemon.worker` and `manager`, for a daemon without Spark SQL.
  `test_python_daemon.py`
* `class_path`, `session.prepare_local`: the names of jars and the files of the package, for small
  JVMs whose files stay in the job's home.  `test_class_path.py`, `test_class_archive.py`
* `tasks.worker`: `executorId=` in `SPARK_LOG_URL_STDERR`, for the executor of a Python worker.
  Every job of `tests/integration/runtime`
"""
