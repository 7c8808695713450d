import java.util.concurrent.locks.LockSupport;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Takes turns as `worker.rs` does: KIND ADDRESS KEY MOST HOLD THINK UNTIL, in nanoseconds. `System.nanoTime()` is
 * `CLOCK_MONOTONIC` on Linux.
 */
public final class CuratorWorker {
    private static final int SESSION = 30_000;

    private interface Locks {
        AutoCloseable acquire() throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(
                arguments[1], SESSION, SESSION, new ExponentialBackoffRetry(1000, 3));
        client.start();
        client.blockUntilConnected();
        Locks locks = locks(client, arguments[0], "/curator/" + arguments[2], Integer.parseInt(arguments[3]));
        long hold = Long.parseLong(arguments[4]);
        long think = Long.parseLong(arguments[5]);
        long until = Long.parseLong(arguments[6]);
        StringBuilder sections = new StringBuilder();
        while (System.nanoTime() < until) {
            long asked = System.nanoTime();
            AutoCloseable held = locks.acquire();
            long start = System.nanoTime();
            sleep(hold);
            long end = System.nanoTime();
            sections.append(asked).append(' ').append(start).append(' ').append(end).append('\n');
            held.close();
            sleep(think);
        }
        System.out.print(sections);
        client.close();
    }

    private static Locks locks(CuratorFramework client, String kind, String path, int most) {
        if (kind.equals("limited")) {
            InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(client, path, most);
            return () -> {
                Lease lease = semaphore.acquire();
                return () -> semaphore.returnLease(lease);
            };
        }
        InterProcessReadWriteLock both = new InterProcessReadWriteLock(client, path);
        InterProcessMutex lock = kind.equals("write") ? both.writeLock() : both.readLock();
        return () -> {
            lock.acquire();
            return lock::release;
        };
    }

    /** `Thread.sleep` knows whole milliseconds only. */
    private static void sleep(long nanos) {
        long end = System.nanoTime() + nanos;
        for (long rest = nanos; rest > 0; rest = end - System.nanoTime()) {
            LockSupport.parkNanos(rest);
        }
    }
}
