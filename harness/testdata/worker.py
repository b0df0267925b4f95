"""A worker as PROTOCOL.md describes it, whose lock is that of redis-py."""
import json
import os
import random
import resource
import sys
import threading
import time

import redis

out = os.fdopen(3, "w", buffering=1)
mutex = threading.Lock()


def say(line):
    with mutex:
        out.write(json.dumps(line) + "\n")


def play(owner, client, spec, quit, cut):
    load, ttl = spec["load"], spec["config"]["ttl_ns"] / 1e9
    hold = float(load["hold"].removesuffix("ms")) / 1e3
    poll = spec["config"]["retry"]["max_ns"] / 1e9 / 2
    rng = random.Random(int(spec["seed"]) * 1000003 + owner)
    while not quit.is_set():
        key = rng.randrange(load["keys"])
        lock = redis.lock.Lock(client, "lb:{%s}:%d" % (spec["run"], key), timeout=ttl, sleep=poll, blocking=False)
        called = time.monotonic_ns()
        while not (held := lock.acquire()) and not cut.is_set():
            time.sleep(poll)
        granted, freed, done, outcome = time.monotonic_ns(), 0, 0, "waiting"
        if held:
            time.sleep(hold)
            freed, outcome = time.monotonic_ns(), "released"
            try:
                lock.release()
            except redis.exceptions.LockError:
                outcome = "lost"
            done = time.monotonic_ns()
        say({"op": {"owner": owner, "key": key, "due_ns": called, "called_ns": called, "granted_ns": granted,
                    "freed_ns": freed, "done_ns": done, "outcome": outcome}})


def finish(threads):
    for t in threads:
        t.join()
    say({"over": True})


say({"protocol": 1, "reports": "operations"})
for line in sys.stdin:
    request = json.loads(line)
    answer = {}
    match request["do"]:
        case "prepare":
            spec = request["spec"]
            client = redis.Redis.from_url(spec["nodes"][0])
            client.ping()
            quit, cut = threading.Event(), threading.Event()
            owners = range(spec["worker"], spec["load"]["owners"], spec["workers"])
            threads = [threading.Thread(target=play, args=(i, client, spec, quit, cut)) for i in owners]
            answer = {"ready": {"timer": "time.sleep"}}
        case "start":
            for t in threads:
                t.start()
            threading.Thread(target=finish, args=(threads,)).start()
        case "cost":
            used = resource.getrusage(resource.RUSAGE_SELF)
            answer = {"cost": {"cpu_ns": (used.ru_utime + used.ru_stime) * 1e9}}
        case "quit":
            quit.set()
        case "cut":
            quit.set()
            cut.set()
        case "part":
            client.close()
        case other:
            answer = {"error": "this worker cannot " + other}
    say(answer)
