import java.io.*;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;
import org.apache.curator.framework.*;
import org.apache.curator.framework.recipes.locks.*;
import org.apache.curator.retry.*;

/**
 * Contenders for locks of Curator, told what to do line by line: NAME lock KIND PATH, NAME try KIND PATH,
 * NAME unlock, NAME work KIND PATH FILE N (add 1 to the number in FILE, N times, each under the lock).
 * Each has a thread of its own. The argument is the address of the server.
 */
public class Contender {
    static CuratorFramework client;

    static InterProcessLock open(String kind, String path) {
        switch (kind) {
        case "mutex": return new InterProcessMutex(client, path);
        case "semaphore": return new InterProcessSemaphoreMutex(client, path);
        case "read": return new InterProcessReadWriteLock(client, path).readLock();
        case "write": return new InterProcessReadWriteLock(client, path).writeLock();
        }
        throw new IllegalArgumentException(kind);
    }

    public static void main(String[] args) throws Exception {
        client = CuratorFrameworkFactory.newClient(args[0], 60000, 15000, new RetryOneTime(100));
        client.start();
        Map<String, ExecutorService> threads = new HashMap<>();
        Map<String, InterProcessLock> held = new ConcurrentHashMap<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("ready");
        for (String line; (line = in.readLine()) != null;) {
            String[] w = line.split(" ");
            threads.computeIfAbsent(w[0], k -> Executors.newSingleThreadExecutor()).submit(() -> {
                try {
                    System.out.println(w[0] + " " + act(w, held));
                } catch (Throwable e) {
                    System.out.println(w[0] + " error: " + e);
                }
            });
        }
        System.exit(0);
    }

    static String act(String[] w, Map<String, InterProcessLock> held) throws Exception {
        switch (w[1]) {
        case "lock": {
            InterProcessLock l = open(w[2], w[3]);
            l.acquire();
            held.put(w[0], l);
            return "locked";
        }
        case "try": {
            InterProcessLock l = open(w[2], w[3]);
            if (!l.acquire(300, TimeUnit.MILLISECONDS)) return "no";
            l.release();
            return "yes";
        }
        case "unlock":
            held.remove(w[0]).release();
            return "unlocked";
        case "work":
            InterProcessLock l = open(w[2], w[3]);
            Path file = Paths.get(w[4]);
            for (int i = 0; i < Integer.parseInt(w[5]); i++) {
                l.acquire();
                int n = Integer.parseInt(new String(Files.readAllBytes(file)).trim());
                Thread.sleep(1);
                Files.write(file, Integer.toString(n + 1).getBytes());
                l.release();
            }
            return "done";
        }
        return "error: what is " + w[1];
    }
}
