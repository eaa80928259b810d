"""A master and two workers, each a process of its own, of which one dies while it works."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tests.scoring.engines.conftest import JAVA, free_port, need_java

# A process of its own: a Python process has one Spark session at a time, and others use theirs.
DRIVER = """
import os, signal, sys, threading, time
import karat
from pyspark.sql import SparkSession
from tests.scoring.engines.conftest import JAVA, METRICS, SETTINGS, assert_same, gold_of, hits_table

url, victim = sys.argv[1], int(sys.argv[2])
settings = {**SETTINGS, "spark.log.level": "OFF", "spark.sql.shuffle.partitions": "4",
            "spark.executor.memory": "512m", "spark.executor.extraJavaOptions": JAVA,
            # Nobody need ask the dead one for long.
            "spark.shuffle.io.maxRetries": "1", "spark.shuffle.io.retryWait": "200ms"}
builder = SparkSession.builder.master(url)
for name, value in settings.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
table, gold = hits_table(600, 20), gold_of(600, 20)
frame = spark.createDataFrame(table.to_arrow()).repartition(4)
frame.count()  # both executors are up, and have written what the next job reads
# Only while tasks of the real job run is anything lost that must be made again.
def kill():
    tracker = spark.sparkContext.statusTracker()
    while not tracker.getActiveStageIds():
        time.sleep(0.005)
    os.killpg(victim, signal.SIGKILL)
    print("killed during stages", tracker.getActiveStageIds(), flush=True)
thread = threading.Thread(target=kill)
thread.start()
there = karat.evaluate(frame, gold, METRICS, engine=spark)
thread.join()
assert_same(karat.evaluate(table, gold, METRICS), there)
print("the same", flush=True)
spark.stop()
"""


class Cluster:
    def __init__(self, folder: Path) -> None:
        import pyspark

        self.folder, self.home = folder, Path(pyspark.__file__).parent
        self.master, self.page = free_port(), free_port()
        self.processes: list[subprocess.Popen[bytes]] = []
        self._logs: list[IO[bytes]] = []
        self.env = {
            **os.environ,
            "SPARK_HOME": str(self.home),
            "SPARK_SCALA_VERSION": "2.13",  # PySpark 4 has no other
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(folder / "local"),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        }

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self.master}"

    def spawn(self, *arguments: str) -> None:
        log = (self.folder / f"{len(self.processes)}.log").open("wb")
        # As bin/spark-class would, without a process that only looks for Java.
        command = ["java", *JAVA.split(), "-Xmx256m", "-cp", f"{self.home}/jars/*", *arguments]
        self._logs.append(log)
        # A group of its own: a worker's executors and their Python die with it.
        self.processes.append(subprocess.Popen(command, env=self.env, stdout=log, stderr=log, start_new_session=True))

    def start(self, workers: int) -> None:
        at = ("--host", "127.0.0.1")
        pages = ("--port", str(self.master), "--webui-port", str(self.page))
        self.spawn("org.apache.spark.deploy.master.Master", *at, *pages)
        for number in range(workers):
            size = ("--cores", "1", "--memory", "1g", "--work-dir", str(self.folder / f"w{number}"))
            page = ("--webui-port", str(free_port()))
            self.spawn("org.apache.spark.deploy.worker.Worker", *at, *size, *page, self.url)
        end = time.monotonic() + 120
        while time.monotonic() < end and all(process.poll() is None for process in self.processes):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.page}/json/", timeout=2) as page_:
                    if json.load(page_)["aliveworkers"] == workers:
                        return
            except OSError:
                pass
            time.sleep(0.2)
        raise AssertionError("the cluster does not start")

    def stop(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)
        for log in self._logs:
            log.close()


@contextmanager
def running(folder: Path, workers: int) -> Iterator[Cluster]:
    cluster = Cluster(folder)
    try:
        cluster.start(workers)
        yield cluster
    finally:
        cluster.stop()


def test_a_worker_that_dies_changes_nothing(tmp_path: Path) -> None:
    need_java()
    (tmp_path / "driver.py").write_text(DRIVER)
    with running(tmp_path, workers=2) as cluster:
        command = [sys.executable, str(tmp_path / "driver.py"), cluster.url, str(cluster.processes[-1].pid)]
        done = subprocess.run(command, env=cluster.env, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        assert "killed during stages" in done.stdout
        assert done.stdout.splitlines()[-1] == "the same"
        assert cluster.processes[-1].wait(30) == -signal.SIGKILL
