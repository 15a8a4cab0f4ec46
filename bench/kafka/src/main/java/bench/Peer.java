package bench;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicBoolean;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * What is measured of Kafka, one mode per process. Each prints lines that the bench reads. Times are
 * System.nanoTime, which on Linux is the monotonic clock, the same for all processes.
 */
public final class Peer {
    private static final byte[] NO_KEY = null;

    private Peer() {}

    public static void main(String[] words) throws Exception {
        Map<String, String> given = new java.util.HashMap<>();
        for (String word : Arrays.copyOfRange(words, 1, words.length)) {
            int at = word.indexOf('=');
            given.put(word.substring(0, at), word.substring(at + 1));
        }
        switch (words[0]) {
            case "fill" -> fill(given);
            case "count" -> count(given);
            case "latency" -> latency(given);
            case "produce" -> produce(given);
            case "member" -> member(given);
            default -> throw new IllegalArgumentException(words[0]);
        }
    }

    /** Makes the topic and stores the messages. */
    private static void fill(Map<String, String> given) throws Exception {
        makeTopic(given);
        int partitions = Integer.parseInt(given.get("partitions"));
        byte[] payload = new byte[Integer.parseInt(given.get("size"))];
        long messages = Long.parseLong(given.get("messages"));
        try (KafkaProducer<byte[], byte[]> producer = producer(given)) {
            for (long n = 0; n < messages; n++) {
                producer.send(new ProducerRecord<>(given.get("topic"), (int) (n % partitions), NO_KEY, payload));
            }
            producer.flush();
        }
        System.out.println("{\"messages\":" + messages + "}");
    }

    private static void makeTopic(Map<String, String> given) throws Exception {
        int partitions = Integer.parseInt(given.get("partitions"));
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", given.get("at")))) {
            admin.createTopics(List.of(new NewTopic(given.get("topic"), partitions, (short) 1))).all().get();
        }
    }

    /** Reads until it is enough, with a commit per poll, into a counter. */
    private static void count(Map<String, String> given) {
        long most = Long.parseLong(given.get("messages"));
        long within = Long.parseLong(given.get("within_ms")) * 1_000_000;
        long count = 0, first = 0, last = 0, atFirst = 0;
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(given)) {
            consumer.subscribe(List.of(given.get("topic")));
            while (count < most && (count == 0 || last - first < within)) {
                int came = consumer.poll(Duration.ofMillis(100)).count();
                if (came == 0) {
                    continue;
                }
                last = System.nanoTime();
                if (count == 0) {
                    first = last;
                    atFirst = came;
                }
                count += came;
                consumer.commitSync();
            }
        }
        System.out.println("{\"messages\":" + count + ",\"at_first\":" + atFirst
            + ",\"seconds\":" + (last - first) / 1e9 + "}");
    }

    /** Publishes at a rate and reads what is published; prints every latency in nanoseconds. */
    private static void latency(Map<String, String> given) throws Exception {
        makeTopic(given);
        int seconds = Integer.parseInt(given.get("seconds"));
        AtomicBoolean over = new AtomicBoolean();
        CompletableFuture<Void> ready = new CompletableFuture<>();
        List<Long> latencies = new ArrayList<>();
        Thread reader = new Thread(() -> {
            try (KafkaConsumer<byte[], byte[]> consumer = consumer(given)) {
                consumer.subscribe(List.of(given.get("topic")));
                while (!over.get()) {
                    var records = consumer.poll(Duration.ofMillis(100));
                    long now = System.nanoTime();
                    for (ConsumerRecord<byte[], byte[]> record : records) {
                        latencies.add(now - ByteBuffer.wrap(record.value()).getLong());
                    }
                    if (!consumer.assignment().isEmpty()) {
                        ready.complete(null);
                    }
                    if (!records.isEmpty()) {
                        consumer.commitSync();
                    }
                }
            }
        });
        reader.start();
        ready.get();
        long warmUp = 3;
        publish(given, (warmUp + seconds) * 1_000_000_000);
        Thread.sleep(500);
        over.set(true);
        reader.join();
        int rate = Integer.parseInt(given.get("rate"));
        List<Long> kept = latencies.subList(Math.min(latencies.size(), (int) warmUp * rate), latencies.size());
        kept.sort(null);
        System.out.println("{\"count\":" + kept.size() + ",\"p50_ns\":" + kept.get(kept.size() / 2)
            + ",\"p99_ns\":" + kept.get(kept.size() * 99 / 100) + "}");
    }

    /** Publishes at a rate until it is ended. */
    private static void produce(Map<String, String> given) {
        publish(given, Long.MAX_VALUE);
    }

    private static void publish(Map<String, String> given, long howLong) {
        int partitions = Integer.parseInt(given.get("partitions"));
        int size = Integer.parseInt(given.get("size"));
        long pause = 1_000_000_000L / Integer.parseInt(given.get("rate"));
        try (KafkaProducer<byte[], byte[]> producer = producer(given)) {
            long start = System.nanoTime();
            for (long n = 0; n * pause < howLong; n++) {
                long due = start + n * pause;
                while (System.nanoTime() < due) {
                    java.util.concurrent.locks.LockSupport.parkNanos(due - System.nanoTime());
                }
                byte[] payload = ByteBuffer.allocate(size).putLong(0, System.nanoTime()).array();
                producer.send(new ProducerRecord<>(given.get("topic"), (int) (n % partitions), NO_KEY, payload));
            }
        }
    }

    /** A member of a group: prints `partition published received` of every message, until SIGTERM. */
    private static void member(Map<String, String> given) throws Exception {
        KafkaConsumer<byte[], byte[]> consumer = consumer(given);
        CompletableFuture<Void> closed = new CompletableFuture<>();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            consumer.wakeup();
            closed.join();
        }));
        try {
            consumer.subscribe(List.of(given.get("topic")), new Teller());
            while (true) {
                var records = consumer.poll(Duration.ofMillis(100));
                long now = System.nanoTime();
                StringBuilder lines = new StringBuilder();
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    long published = ByteBuffer.wrap(record.value()).getLong();
                    lines.append(record.partition()).append(' ').append(published).append(' ').append(now).append('\n');
                }
                if (!records.isEmpty()) {
                    System.out.print(lines);
                    System.out.flush();
                    consumer.commitSync();
                }
            }
        } catch (org.apache.kafka.common.errors.WakeupException end) {
            consumer.close();
        } finally {
            closed.complete(null);
        }
    }

    private static final class Teller implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            tell("revoked", partitions);
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            tell("assigned", partitions);
        }

        private static void tell(String what, Collection<TopicPartition> partitions) {
            for (TopicPartition partition : partitions) {
                System.out.println(what + " " + partition.partition() + " " + System.nanoTime());
            }
            System.out.flush();
        }
    }

    private static KafkaProducer<byte[], byte[]> producer(Map<String, String> given) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", given.get("at"));
        settings.put("linger.ms", "0");
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static KafkaConsumer<byte[], byte[]> consumer(Map<String, String> given) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", given.get("at"));
        settings.put("group.id", given.get("group"));
        settings.put("group.protocol", "consumer");
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("max.poll.records", given.getOrDefault("window", "500"));
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }
}
