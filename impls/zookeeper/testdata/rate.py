"""A contender for kazoo's Lock: works for as many seconds as each line says, and
answers how often it had the lock."""
import sys, time
from kazoo.client import KazooClient

client = KazooClient(hosts=sys.argv[1], timeout=15)
client.start()
lock = client.Lock(sys.argv[2])
print(0, flush=True)
for line in sys.stdin:
    end, n = time.monotonic() + float(line), 0
    while time.monotonic() < end:
        with lock:
            n += 1
    print(n, flush=True)
client.stop()
