"""Contenders for kazoo's Lock; see Contender.java for what they are told."""
import queue, sys, threading, time
from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout

client = KazooClient(hosts=sys.argv[1], timeout=15)
client.start()
threads, held = {}, {}

def act(w):
    if w[1] == "lock":
        held[w[0]] = client.Lock(w[3], w[0])
        held[w[0]].acquire()
        return "locked"
    if w[1] == "try":
        lock = client.Lock(w[3], w[0])
        try:
            lock.acquire(timeout=0.3)
        except LockTimeout:
            return "no"
        lock.release()
        return "yes"
    if w[1] == "unlock":
        held.pop(w[0]).release()
        return "unlocked"
    for _ in range(int(w[5])):
        with client.Lock(w[3], w[0]):
            with open(w[4]) as f:
                n = int(f.read())
            time.sleep(0.001)
            with open(w[4], "w") as f:
                f.write(str(n + 1))
    return "done"

def serve(todo):
    while True:
        w = todo.get()
        try:
            print(w[0], act(w), flush=True)
        except BaseException as e:
            print(w[0], "error:", repr(e), flush=True)

print("ready", flush=True)
for line in sys.stdin:
    w = line.split()
    if w[0] not in threads:
        threads[w[0]] = queue.Queue()
        threading.Thread(target=serve, args=(threads[w[0]],), daemon=True).start()
    threads[w[0]].put(w)
