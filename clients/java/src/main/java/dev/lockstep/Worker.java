package dev.lockstep;

import com.google.gson.Gson;
import com.google.gson.JsonObject;
import com.google.gson.JsonParseException;
import com.google.gson.JsonParser;
import com.google.gson.annotations.SerializedName;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A thin client for the socket of a Lockstep worker. Each method is one call of docs/application.md.
 *
 * <p>For one thread; readers that share a socket each need a session of their own. An
 * {@link IOException} other than {@link Refused} means that there was no answer: the call may have
 * arrived, and may be repeated.
 */
public final class Worker implements AutoCloseable {
    private static final Gson GSON = new Gson();
    private static final Duration TIMEOUT = Duration.ofMinutes(1);

    private final UnixHttp http;
    private final Map<String, String> headers = new LinkedHashMap<>();

    /** A message's token; the epoch fences writes of former owners. */
    public record Position(int partition, long epoch, long sequence) {}

    /** What became of one position: ACCEPTED, COMMITTED or NOT_OWNED. */
    public record Result(int partition, long epoch, long sequence, String status, long committed) {}

    /** What became of a published message. */
    public record Published(String stream, long sequence, Integer partition, boolean duplicate) {}

    /** A message of a partition; its times are RFC 3339. */
    public record Message(int partition, long epoch, long sequence, String stream, String subject, String key,
            @SerializedName("payload") String base64, Map<String, List<String>> headers, String timestamp,
            int attempt, String deadline) {
        /** The content. */
        public byte[] payload() {
            return Base64.getDecoder().decode(base64);
        }

        /** What ack and nack take. */
        public Position position() {
            return new Position(partition, epoch, sequence);
        }
    }

    /** An answer that is an error. */
    public static final class Refused extends IOException {
        private static final long serialVersionUID = 1;

        /** The HTTP status. */
        public final int status;
        /** The word for it. */
        public final String code;
        /** When to try again; zero if unknown. */
        public final Duration retryAfter;

        Refused(int status, JsonObject problem, Duration retryAfter) {
            super(text(problem, "code") + " (" + status + "): " + text(problem, "message") + "; "
                    + text(problem, "hint"));
            this.status = status;
            this.code = text(problem, "code");
            this.retryAfter = retryAfter;
        }

        /** Whether the same call may succeed later. */
        public boolean passes() {
            return status >= 500 || status == 408;
        }

        private static String text(JsonObject problem, String name) {
            return problem.has(name) ? problem.get(name).getAsString() : "";
        }
    }

    private record Fetched(List<Message> messages) {}

    private record Results(List<Result> results) {}

    /** The worker at a socket (LOCKSTEP_SOCKET or the injected one if null), in a session (the shared one if null). */
    public Worker(String socket, String session) {
        String named = socket != null ? socket : System.getenv("LOCKSTEP_SOCKET");
        http = new UnixHttp(Path.of(named != null ? named : "/var/run/lockstep/worker.sock"));
        headers.put("Content-Type", "application/json");
        if (session != null) {
            headers.put("lockstep-session", session);
        }
    }

    /** Takes messages, and waits so long for the first. */
    public List<Message> fetch(int most, Duration wait) throws IOException {
        Map<String, Object> body = Map.of("max_messages", most, "max_wait", wait.toMillis() + "ms");
        return call("POST", "/v1/fetch", body, Fetched.class).messages;
    }

    /** Says that everything up to these positions is done; one result for each. */
    public List<Result> ack(List<Position> positions) throws IOException {
        return call("POST", "/v1/ack", Map.of("positions", positions), Results.class).results;
    }

    /** Says that a message failed; it is tried again in its place. */
    public void nack(Position position, String why) throws IOException {
        call("POST", "/v1/nack", Map.of("messages", List.of(position), "error", why), Results.class);
    }

    /** Publishes by key; with an id (or null) it may be repeated. */
    public Published publish(String key, String id, byte[] payload) throws IOException {
        Map<String, Object> body = new HashMap<>();
        body.put("key", key);
        body.put("payload", Base64.getEncoder().encodeToString(payload));
        if (id != null) {
            body.put("id", id);
        }
        return call("POST", "/v1/publish", body, Published.class);
    }

    /** Any call of docs/application.md; the body may be null. */
    public <T> T call(String method, String path, Object body, Class<T> answer) throws IOException {
        byte[] content = body == null ? new byte[0] : GSON.toJson(body).getBytes(StandardCharsets.UTF_8);
        UnixHttp.Response response = http.call(method, path, headers, content, TIMEOUT);
        String text = new String(response.body(), StandardCharsets.UTF_8);
        try {
            if (response.status() == 200) {
                return GSON.fromJson(text, answer);
            }
            long seconds = Long.parseLong(response.headers().getOrDefault("retry-after", "0"));
            JsonObject problem = JsonParser.parseString(text).getAsJsonObject();
            throw new Refused(response.status(), problem, Duration.ofSeconds(seconds));
        } catch (JsonParseException | IllegalStateException | NumberFormatException error) {
            throw new IOException("the worker's answer cannot be read: " + text, error);
        }
    }

    @Override
    public void close() {
        http.close();
    }
}
