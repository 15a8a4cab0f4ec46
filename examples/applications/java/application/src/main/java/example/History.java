package example;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import dev.lockstep.Consumer;
import dev.lockstep.Worker.Message;
import dev.lockstep.Worker.Position;
import dev.lockstep.Worker.Result;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;

/** What was seen and acknowledged, as the history checker in e2e/ reads it. */
final class History implements Consumer.Observer {
    private final FileChannel file;
    private final String member;
    private final String session;
    private final long suspended;
    private long acks;
    private List<JsonObject> pending = List.of();

    History(Path path, String member) throws IOException {
        file = FileChannel.open(path, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        this.member = member;
        session = member + "-" + ProcessHandle.current().pid() + "-" + System.currentTimeMillis();
        suspended = suspended();
    }

    void seen(Message message) {
        JsonObject order = JsonParser.parseString(new String(message.payload(), StandardCharsets.UTF_8))
                .getAsJsonObject();
        JsonObject record = of(message.position());
        record.add("key", order.get("key"));
        record.add("n", order.get("n"));
        record.addProperty("attempt", message.attempt());
        write("seen", record);
    }

    @Override
    public void acking(List<Position> positions) {
        pending = new ArrayList<>();
        for (Position position : positions) {
            JsonObject ack = numbered(position);
            pending.add(ack);
            write("acking", ack);
        }
    }

    @Override
    public void acked(List<Result> results) {
        for (int i = 0; i < results.size(); i++) {
            write(results.get(i).status().equals("NOT_OWNED") ? "refused" : "acked", pending.get(i));
        }
    }

    @Override
    public void nacking(Position position, Exception why) {
        write("nacking", numbered(position));
    }

    @Override
    public void trouble(IOException error) {
        System.err.println(error);
    }

    private JsonObject numbered(Position position) {
        JsonObject ack = of(position);
        ack.addProperty("ack", ++acks);
        return ack;
    }

    private static JsonObject of(Position position) {
        JsonObject record = new JsonObject();
        record.addProperty("partition", position.partition());
        record.addProperty("epoch", position.epoch());
        record.addProperty("sequence", position.sequence());
        return record;
    }

    /** One write per line, so that what a killed process wrote is there. */
    private void write(String what, JsonObject fields) {
        JsonObject record = fields.deepCopy();
        record.addProperty("what", what);
        record.addProperty("member", member);
        record.addProperty("session", session);
        record.addProperty("at", System.nanoTime() + suspended);
        try {
            file.write(ByteBuffer.wrap((record + "\n").getBytes(StandardCharsets.UTF_8)));
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /**
     * Histories are in CLOCK_BOOTTIME. System.nanoTime is CLOCK_MONOTONIC, which differs by the time
     * that the machine was suspended; /proc/uptime tells, to a hundredth of a second.
     */
    private static long suspended() throws IOException {
        String uptime = Files.readString(Path.of("/proc/uptime")).split(" ")[0];
        long ahead = Math.round(Double.parseDouble(uptime) * 1e9) - System.nanoTime();
        return ahead > 100_000_000L ? ahead : 0;
    }
}
