package example;

import dev.lockstep.Consumer;
import dev.lockstep.Worker;
import dev.lockstep.Worker.Message;
import java.io.IOException;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;

/**
 * Handles the messages of a Lockstep worker in order. Ends well on SIGTERM.
 *
 * <pre>java -jar app.jar --socket /var/run/lockstep/worker.sock</pre>
 */
public final class Application {
    private final History history;
    private final int failEvery;
    private int handled;
    private volatile boolean endedWell;

    private Application(History history, int failEvery) {
        this.history = history;
        this.failEvery = failEvery;
    }

    /** The work itself. What it throws on is tried again, and nothing overtakes it. */
    private void handle(Message message) throws IOException {
        if (history != null) {
            history.seen(message);
        } else {
            System.out.println(message.partition() + " " + message.sequence() + " " + message.key());
        }
        handled++;
        if (failEvery > 0 && handled % failEvery == 0 && message.attempt() == 1) {
            throw new IllegalStateException("failing once, as told");
        }
    }

    /** Options: --socket PATH, --log HISTORY, --member NAME, --fail-every N. */
    public static void main(String[] arguments) throws Exception {
        Map<String, String> options = options(arguments);
        String log = options.get("--log");
        History history = log == null ? null
                : new History(Path.of(log), options.getOrDefault("--member", "member"));
        Application application =
                new Application(history, Integer.parseInt(options.getOrDefault("--fail-every", "0")));
        try (Worker worker = new Worker(options.get("--socket"), null)) {
            Consumer.Observer observer = history != null ? history : new Consumer.Observer() {};
            Consumer consumer = new Consumer(worker, 100, application::handle, observer);
            Thread main = Thread.currentThread();
            // SIGTERM runs this; the machine ends when it returns, with 143 unless told otherwise.
            Runtime.getRuntime().addShutdownHook(new Thread(() -> {
                consumer.stop();
                try {
                    main.join();
                    if (application.endedWell) {
                        Runtime.getRuntime().halt(0);
                    }
                } catch (InterruptedException ended) {
                    Thread.currentThread().interrupt();
                }
            }));
            consumer.run();
        }
        System.out.println("ended after " + application.handled + " messages");
        System.out.flush();
        application.endedWell = true;
    }

    private static Map<String, String> options(String[] arguments) {
        Map<String, String> options = new HashMap<>();
        for (int i = 0; i + 1 < arguments.length; i += 2) {
            options.put(arguments[i], arguments[i + 1]);
        }
        return options;
    }
}
