package dev.lockstep;

import dev.lockstep.Worker.Message;
import dev.lockstep.Worker.Position;
import dev.lockstep.Worker.Refused;
import dev.lockstep.Worker.Result;
import java.io.IOException;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Hands over every message in order, and acknowledges those for which the handler returned.
 *
 * <p>A message for which it threw is given back; what follows it in its partition waits. No worker, a
 * worker that starts anew, a group that is not there yet: all are waited for.
 */
public final class Consumer {
    private static final Duration FETCH_WAIT = Duration.ofSeconds(1);
    private static final long SHORTEST_WAIT = 100;
    private static final long LONGEST_WAIT = 1000;
    private static final int LAST_TRIES = 20;

    private final Worker worker;
    private final int most;
    private final Handler handler;
    private final Observer observer;
    private volatile boolean stopping;

    /** What is done with a message. */
    @FunctionalInterface
    public interface Handler {
        /** Returns when the message is done; throws when it has to be tried again. */
        void handle(Message message) throws Exception;
    }

    /** Told what is done, to count or to log. */
    public interface Observer {
        /** These are about to be acknowledged; said again before each repetition. */
        default void acking(List<Position> positions) {}

        /** The answer to the last acking; empty if the call itself was refused. */
        default void acked(List<Result> results) {}

        /** This message failed and is about to be given back. */
        default void nacking(Position position, Exception why) {}

        /** A call did not succeed; it is tried again. */
        default void trouble(IOException error) {}
    }

    @FunctionalInterface
    private interface Call<T> {
        T make() throws IOException;
    }

    /** Takes up to so many messages at a time: so many have to be doable while the application ends. */
    public Consumer(Worker worker, int most, Handler handler, Observer observer) {
        this.worker = worker;
        this.most = most;
        this.handler = handler;
        this.observer = observer;
    }

    /** Lets run return once what was fetched is finished and acknowledged. From any thread. */
    public void stop() {
        stopping = true;
    }

    /** Consumes until it is stopped. */
    public void run() throws InterruptedException {
        while (!stopping) {
            List<Message> messages = untilAnswered(() -> worker.fetch(most, FETCH_WAIT), 0);
            handleAll(messages == null ? List.of() : messages);
        }
    }

    private void handleAll(List<Message> messages) throws InterruptedException {
        Map<Integer, Position> done = new LinkedHashMap<>();
        Map<Integer, Position> failed = new LinkedHashMap<>();
        Map<Integer, Exception> reasons = new LinkedHashMap<>();
        long flushed = System.nanoTime();
        for (Message message : messages) {
            if (failed.containsKey(message.partition())) {
                continue;
            }
            try {
                handler.handle(message);
                done.put(message.partition(), message.position());
            } catch (InterruptedException ended) {
                throw ended;
            } catch (Exception why) { // whatever it is: the message is not done
                failed.put(message.partition(), message.position());
                reasons.put(message.partition(), why);
            }
            if (System.nanoTime() - flushed > 1_000_000_000L) { // slow work is acknowledged as it goes
                acknowledge(done);
                flushed = System.nanoTime();
            }
        }
        acknowledge(done);
        for (Map.Entry<Integer, Position> entry : failed.entrySet()) {
            giveBack(entry.getValue(), reasons.get(entry.getKey()));
        }
    }

    private void acknowledge(Map<Integer, Position> done) throws InterruptedException {
        List<Position> positions = List.copyOf(done.values());
        done.clear();
        if (positions.isEmpty()) {
            return;
        }
        List<Result> results = untilAnswered(() -> {
            observer.acking(positions);
            return worker.ack(positions);
        }, LAST_TRIES);
        observer.acked(results == null ? List.of() : results);
    }

    private void giveBack(Position position, Exception why) throws InterruptedException {
        observer.nacking(position, why);
        untilAnswered(() -> {
            worker.nack(position, why.toString());
            return null;
        }, LAST_TRIES);
    }

    /** Repeats a call until it is answered; while stopping, only so many times. */
    private <T> T untilAnswered(Call<T> call, int lastTries) throws InterruptedException {
        for (int left = lastTries;; ) {
            long wait = SHORTEST_WAIT;
            try {
                return call.make();
            } catch (Refused refused) {
                observer.trouble(refused);
                if (!refused.passes()) { // time does not heal it; but it must not become a busy loop
                    Thread.sleep(LONGEST_WAIT);
                    return null;
                }
                wait = Math.min(Math.max(refused.retryAfter.toMillis(), wait), LONGEST_WAIT);
            } catch (IOException error) {
                observer.trouble(error);
            }
            if (stopping && left-- <= 0) {
                return null;
            }
            Thread.sleep(wait);
        }
    }
}
