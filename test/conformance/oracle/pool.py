"""Worker processes that check one entry after the other; one that dies or hangs costs its entry only."""
import importlib
import multiprocessing
import multiprocessing.connection
import time

LIMIT_S = 600  # for one entry; the largest takes two minutes on an idle machine
ENTRIES_EACH = 60  # TorchScript never forgets a trace: a worker that has seen so many makes room for another


def entries(module):
    return importlib.import_module(module).names()


def _work(connection, module):
    checker = importlib.import_module(module)
    while True:
        name, limit, seed = connection.recv()
        if name is None:
            return
        connection.send(checker.check(name, limit, seed))


class _Worker:
    def __init__(self, module):
        self.connection, theirs = multiprocessing.Pipe()
        self.process = multiprocessing.get_context("fork").Process(target=_work, args=(theirs, module), daemon=True)
        self.process.start()
        theirs.close()
        self.name, self.since, self.given = None, 0.0, 0

    def give(self, name, limit, seed):
        self.name, self.since, self.given = name, time.time(), self.given + 1
        self.connection.send((name, limit, seed))

    def stop(self):
        self.process.kill()
        self.process.join()


def _crash(why):
    return {"status": "crashed", "reason": why, "samples": 0, "runs": 0}


def check(module, names, limit, seed, jobs):
    """Yields (name, result) as they come."""
    waiting = list(names)[::-1]
    workers = [_Worker(module) for _ in range(min(jobs, max(len(waiting), 1)))]
    for worker in workers:
        if waiting:
            worker.give(waiting.pop(), limit, seed)
    while any(w.name for w in workers):
        ready = multiprocessing.connection.wait([w.connection for w in workers if w.name], timeout=5)
        for i, worker in enumerate(workers):
            if worker.name is None:
                continue
            name, late = worker.name, time.time() - worker.since > LIMIT_S
            if worker.connection in ready:
                try:
                    result = worker.connection.recv()
                except EOFError:
                    worker.process.join()
                    result = _crash(f"the process ended with {worker.process.exitcode}")
            elif late:
                result = _crash(f"no end after {LIMIT_S} s")
            else:
                continue
            dead = result["status"] == "crashed" and result["samples"] == 0 and result["runs"] == 0
            if dead or worker.given >= ENTRIES_EACH:
                worker.stop()
                workers[i] = worker = _Worker(module)
            worker.name = None
            yield name, result
            if waiting:
                worker.give(waiting.pop(), limit, seed)
    for worker in workers:
        worker.stop()
