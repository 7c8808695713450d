import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** `InterProcessMutex` of Curator: a lock lasts as long as the session, which is 2 s without its server. */
public final class CuratorMutex {
    private static final int SESSION = 2000;
    /** What ends the section of each request: whether its holder asked for it. */
    private static final Map<String, CompletableFuture<Boolean>> HELD = new ConcurrentHashMap<>();

    public static void main(String[] arguments) throws Exception {
        String address = arguments[0].replaceFirst("^zookeeper://", "");
        // The retries are those of its documentation.
        CuratorFramework client = CuratorFrameworkFactory.newClient(
                address, SESSION, SESSION, new ExponentialBackoffRetry(1000, 3));
        // As documented: while the client is not connected, no holder relies on a lock.
        client.getConnectionStateListenable().addListener((own, state) -> {
            if (!state.isConnected()) {
                HELD.keySet().forEach(id -> end(id, false));
            }
        });
        client.start();
        client.blockUntilConnected();
        String[] jars = new File("/usr/share/java").list((in, name) -> name.matches("curator-recipes-\\d.*"));
        String version = jars[0].replaceAll("^curator-recipes-|\\.jar$", "");
        say("hello curator " + version + " tokens=no waits=yes renews=yes");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("acquire")) {
                // Only the thread that acquired it may release it.
                new Thread(() -> serve(client, words[1], "/" + words[2], Long.parseLong(words[4]))).start();
            } else if (!end(words[1], true)) {
                say(words[1] + " lost");
            }
        }
        System.exit(0);
    }

    /** Whether the lock of the request was held. */
    private static boolean end(String id, boolean asked) {
        CompletableFuture<Boolean> end = HELD.remove(id);
        return end != null && end.complete(asked);
    }

    private static void serve(CuratorFramework client, String id, String path, long wait) {
        InterProcessMutex mutex = new InterProcessMutex(client, path);
        try {
            if (!mutex.acquire(wait, TimeUnit.MILLISECONDS)) {
                say(id + " busy");
                return;
            }
            CompletableFuture<Boolean> end = new CompletableFuture<>();
            HELD.put(id, end);
            say(id + " ok");
            // A connection that was lost between the grant and its registration has reached a listener that did not
            // know of the lock.
            if (!client.getZookeeperClient().isConnected()) {
                end(id, false);
            }
            if (end.get()) {
                mutex.release();
                say(id + " released");
            } else {
                say(id + " lost");
                mutex.release();
            }
        } catch (Exception error) {
            say(id + " error " + error.toString().replace('\n', ' '));
        }
    }

    private static void say(String line) {
        synchronized (System.out) {
            System.out.println(line);
            System.out.flush();
        }
    }
}
