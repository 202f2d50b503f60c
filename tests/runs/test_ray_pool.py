"""A Ray cluster of two nodes on this machine; a node is lost, a worker dies: the certificates stay what they are."""

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import soundsmooth as ss
from runs.far_models import DiesOnce, Meeting
from runs.test_pools import COUNT, elsewhere, here, locally, planned, recipe, rows
from runs.test_pools_looks import looking, looking_recipe
from soundsmooth.runs import ray_pool
from soundsmooth.runs.pipeline import certify_into, open_store
from soundsmooth.runs.pools import LocalPool, WorkerDied
from soundsmooth.runs.ray_pool import Need, RayPool, RayWorker

ray: Any = pytest.importorskip("ray", reason="Ray is an extra: pip install 'soundsmooth[ray]'")
TESTS = Path(__file__).parents[1]
SMALL = {"num_cpus": 1, "object_store_memory": 100 << 20}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        paths = [str(TESTS), str(TESTS.parent / "src"), os.environ.get("PYTHONPATH", "")]
        patch.setenv("PYTHONPATH", os.pathsep.join(paths))  # the workers import the tests' models
        cluster = Cluster(initialize_head=True, head_node_args={**SMALL, "include_dashboard": False})
        try:
            cluster.add_node(**SMALL)
            yield cluster
        finally:
            ray.shutdown()
            cluster.shutdown()


@pytest.mark.slow("starts a Ray cluster")
def test_a_worker_dies(tmp_path: Path, cluster: Any) -> None:
    with RayPool(recipe(DiesOnce(tmp_path, 60)), Need(cpus=1), address=cluster.address) as pool:
        assert pool.capacity() == 2
        issued = elsewhere(tmp_path / "far.db", planned(pool))
    assert [type(each) for each in issued] == [ss.Certificate] * COUNT
    assert (tmp_path / "misbehaved").exists()
    assert {each.environment["engine"] for each in issued} == {f"ray {ray.__version__}"}
    assert rows(tmp_path / "far.db") == locally(tmp_path / "near.db", here(DiesOnce(tmp_path, 60)))  # dies once


@pytest.mark.slow("starts a Ray cluster")
def test_with_looks_the_rows_are_those_of_one_process(tmp_path: Path, cluster: Any) -> None:
    """Images share batches, and stop at different looks."""
    with RayPool(looking_recipe("proved"), Need(cpus=1), address=cluster.address) as pool:
        issued = elsewhere(tmp_path / "far.db", looking(pool))
    assert {each.environment["engine"] for each in issued} == {f"ray {ray.__version__}"}
    here = LocalPool(looking_recipe("proved").build())
    assert rows(tmp_path / "far.db") == locally(tmp_path / "near.db", looking(here))
    assert len({len(each.looks) for each in issued}) > 1


@pytest.mark.slow("starts a Ray cluster and removes a node")
def test_a_node_is_removed(tmp_path: Path, cluster: Any) -> None:
    (node,) = cluster.worker_nodes
    processes, removed = tmp_path / "processes", []

    def remove_it(_: int) -> None:
        """As soon as both nodes have voted."""
        if not removed and len(set(processes.read_text().split())) == 2:
            removed.append(store.progress().finished)
            cluster.remove_node(node, allow_graceful=False)

    with RayPool(recipe(Meeting(tmp_path, 2)), Need(cpus=1), address=cluster.address) as pool:
        plan = planned(pool)
        with open_store(tmp_path / "far.db", plan) as store:
            issued = list(certify_into(store, plan, remove_it))
    assert [type(each) for each in issued] == [ss.Certificate] * COUNT
    cluster.add_node(**SMALL)  # for the tests that come after, whichever they are
    assert removed
    assert removed[0] < COUNT
    assert rows(tmp_path / "far.db") == locally(tmp_path / "near.db", here(Meeting(tmp_path, 2)))  # they have met


def test_a_cluster_without_room(cluster: Any) -> None:
    with (
        pytest.raises(
            ValueError, match=r"no machine of the cluster has room for a worker, which takes 1 CPUs and 0\.5"
        ),
        RayPool(recipe(), Need(1, 0.5), address=cluster.address),
    ):
        pass


def test_a_cluster_that_cannot_be_reached() -> None:
    """At a port that is taken, so that nobody else listens there, and where nobody does."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with (
            pytest.raises(ValueError, match=f"the Ray cluster at '{address}' cannot be reached"),
            RayPool(recipe(), Need(), 1, address),
        ):
            pass


def test_what_answers_is_no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_pool, "ANSWER_SECONDS", 4.0)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        threading.Thread(target=lambda: [mute.accept() for _ in range(9)], daemon=True).start()
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        with pytest.raises(ValueError, match="is not a Ray cluster that works"), RayPool(recipe(), Need(), 1, address):
            pass


@pytest.mark.parametrize("address", ["nowhere", "host:", ":6379"])
def test_an_address_that_is_none(address: str) -> None:
    with pytest.raises(ValueError, match="a Ray address is HOST:PORT"), RayPool(recipe(), Need(), 1, address):
        pass


LOSSES = [
    ray.exceptions.OutOfMemoryError("the node is nearly full"),
    ray.exceptions.NodeDiedError("gone"),
    ray.exceptions.WorkerCrashedError(),
    ray.exceptions.ActorDiedError(),
]


@pytest.mark.parametrize("error", LOSSES, ids=lambda error: type(error).__name__)
def test_a_worker_that_ray_has_ended_is_lost_and_not_the_run(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray ends workers where a machine's memory is nearly full: that is a death like any other."""

    def get(_: object) -> None:
        raise error

    pool, worker = RayPool(recipe(Meeting(TESTS, 2)), Need(cpus=1)), RayWorker(None)
    worker.answers.append("an answer")
    monkeypatch.setattr(pool, "_ray", SimpleNamespace(exceptions=ray.exceptions, get=get))
    found = pool._read(worker)
    assert isinstance(found, WorkerDied)
    assert found.suspicious


def test_what_a_worker_takes() -> None:
    assert Need(1, 0.25).places({"CPU": 16, "GPU": 8}) == 16
    assert Need(1, 0.25).places({"CPU": 64, "GPU": 8}) == 32
    assert Need(1, 0.1).places({"CPU": 64, "GPU": 3}) == 30
    assert Need(2).places({"CPU": 5}) == 2
    assert Need(1, 1).places({"CPU": 5}) == 0
    with pytest.raises(ValueError, match="a worker needs a part"):
        Need(0, 0)
    with pytest.raises(ValueError, match="on one GPU or a part of it"):
        Need(1, 2)
